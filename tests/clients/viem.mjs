// viem against a dev chain: node viem.mjs URL WS_URL TOKEN_ARTEFACT
import { readFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import {
  createPublicClient, createWalletClient, defineChain, http, parseEther, parseGwei, webSocket,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';

const [url, wsUrl, artefactFile] = process.argv.slice(2);
const { abi, bytecode } = JSON.parse(readFileSync(artefactFile, 'utf8'));
const account = privateKeyToAccount('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');
const other = privateKeyToAccount('0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d');
const chain = defineChain({
  id: 31337,
  name: 'prestate dev',
  nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
  rpcUrls: { default: { http: [url], webSocket: [wsUrl] } },
});
const client = createPublicClient({ chain, transport: http(url), pollingInterval: 50 });
const wallet = createWalletClient({ chain, account, transport: http(url) });
const live = createPublicClient({ chain, transport: webSocket(wsUrl) });
const to = '0x00000000000000000000000000000000000e7a01';

assert.equal(await client.getChainId(), 31337);

const heads = [];
const stopHeads = live.watchBlocks({ onBlock: (block) => heads.push(block.hash), onError: (error) => { throw error; } });
await new Promise((done) => setTimeout(done, 300));

async function mined(hash) {
  const receipt = await client.waitForTransactionReceipt({ hash });
  assert.equal(receipt.status, 'success');
  return receipt;
}

// Types 0, 1, 2 and 4.
await mined(await wallet.sendTransaction({ to, value: 1n, type: 'legacy', gasPrice: parseGwei('5') }));
await mined(await wallet.sendTransaction({ to, value: 1n, type: 'eip2930', gasPrice: parseGwei('5'), accessList: [{ address: to, storageKeys: [] }] }));
const plain = await mined(await wallet.sendTransaction({ to, value: parseEther('1') }));
assert.equal(plain.type, 'eip1559');
assert.equal(plain.gasUsed, 21000n);
assert.equal(await client.getBalance({ address: to }), parseEther('1') + 2n);
assert.equal(await client.getBalance({ address: to, blockNumber: plain.blockNumber - 1n }), 2n);

const deployed = await mined(await wallet.deployContract({ abi, bytecode, args: ['Viem', 'VIE', 1000n] }));
const token = deployed.contractAddress;
assert.equal(await client.readContract({ address: token, abi, functionName: 'symbol' }), 'VIE');

const seen = [];
const stopLogs = live.watchContractEvent({ address: token, abi, eventName: 'Transfer', onLogs: (logs) => seen.push(...logs), onError: (error) => { throw error; } });
await new Promise((done) => setTimeout(done, 300));
const { request } = await client.simulateContract({ account, address: token, abi, functionName: 'transfer', args: [to, 7n] });
const moved = await mined(await wallet.writeContract(request));
const logs = await client.getContractEvents({ address: token, abi, eventName: 'Transfer', fromBlock: moved.blockNumber });
assert.deepEqual(logs.map((log) => log.args.value), [7n]);
assert.equal(await client.readContract({ address: token, abi, functionName: 'balanceOf', args: [to] }), 7n);

// Errors of contracts come with their reason.
await assert.rejects(
  client.simulateContract({ account, address: token, abi, functionName: 'transfer', args: [to, 10_000n] }),
  (error) => error.walk((cause) => cause.data?.errorName === 'InsufficientBalance') !== null,
);

const authorization = await wallet.signAuthorization({ account: other, contractAddress: token });
const delegated = await mined(await wallet.sendTransaction({ to, authorizationList: [authorization] }));
assert.equal(delegated.type, 'eip7702');
assert.equal(await client.getCode({ address: other.address }), `0xef0100${token.slice(2).toLowerCase()}`);

const block = await client.getBlock({ includeTransactions: true });
assert.equal(block.hash, delegated.blockHash);
assert.equal(block.transactions.length, 1);
assert.ok((await client.getFeeHistory({ blockCount: 4, rewardPercentiles: [25, 75] })).baseFeePerGas.length === 5);
assert.ok((await client.estimateFeesPerGas()).maxFeePerGas > 0n);
assert.equal((await client.getProof({ address: token, storageKeys: [`0x${'0'.repeat(64)}`] })).nonce, 1);
const { accessList } = await client.createAccessList({ account, to: token, data: '0x95d89b41' });
assert.equal(accessList.length, 1);

for (let tries = 0; tries < 100 && (seen.length < 1 || !heads.includes(delegated.blockHash)); tries++) {
  await new Promise((done) => setTimeout(done, 50));
}
assert.deepEqual(seen.map((log) => log.args.value), [7n], 'the subscription to logs');
assert.ok(heads.includes(delegated.blockHash), 'the subscription to heads');
stopHeads();
stopLogs();
console.log(`viem: ${heads.length} heads and ${seen.length} log over WebSocket`);
process.exit(0);
