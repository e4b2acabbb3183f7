// ethers against a dev chain: node ethers.mjs URL WS_URL TOKEN_ARTEFACT
import { readFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import { Contract, ContractFactory, JsonRpcProvider, Wallet, WebSocketProvider, parseEther, parseUnits } from 'ethers';

const [url, wsUrl, artefactFile] = process.argv.slice(2);
const { abi, bytecode } = JSON.parse(readFileSync(artefactFile, 'utf8'));
// Blocks come faster than ethers forgets what it has asked: no cache.
const provider = new JsonRpcProvider(url, undefined, { polling: true, pollingInterval: 50, cacheTimeout: -1 });
const live = new WebSocketProvider(wsUrl);
const wallet = new Wallet('0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a', provider);
const to = '0x00000000000000000000000000000000000e7a02';

assert.equal((await provider.getNetwork()).chainId, 31337n);
const heads = [];
await live.on('block', (number) => heads.push(number));

const legacy = await (await wallet.sendTransaction({ to, value: 1n, type: 0 })).wait();
assert.equal(legacy.type, 0);
const listed = await (await wallet.sendTransaction({ to, value: 1n, type: 1, gasPrice: parseUnits('5', 'gwei'), accessList: [] })).wait();
assert.equal(listed.type, 1);
const plain = await (await wallet.sendTransaction({ to, value: parseEther('1') })).wait();
assert.equal(plain.type, 2);
assert.equal(await provider.getBalance(to), parseEther('1') + 2n);
assert.equal(await provider.getBalance(to, plain.blockNumber - 1), 2n);

const contract = await new ContractFactory(abi, bytecode, wallet).deploy('Ethers', 'ETR', 1000n);
await contract.waitForDeployment();
const token = await contract.getAddress();
const seen = [];
await new Contract(token, abi, live).on('Transfer', (from, owner, value) => seen.push(value));
await new Promise((done) => setTimeout(done, 300));
const moved = await (await contract.transfer(to, 7n)).wait();
assert.equal(moved.logs[0].args.value, 7n);
const found = await contract.queryFilter(contract.filters.Transfer(wallet.address), moved.blockNumber);
assert.deepEqual(found.map((log) => log.args.value), [7n]);
assert.equal(await contract.balanceOf(to), 7n);
await assert.rejects(contract.transfer(to, 10_000n), (error) => error.code === 'CALL_EXCEPTION' && contract.interface.parseError(error.data).name === 'InsufficientBalance');
await assert.rejects(
  wallet.sendTransaction({ to, value: parseEther('1000000'), gasLimit: 21000n }),
  (error) => error.code === 'INSUFFICIENT_FUNDS',
);
const stale = await wallet.sendTransaction({ to, nonce: 0, gasLimit: 21000n }).catch((error) => error);
assert.equal(stale.code, 'NONCE_EXPIRED');

const authorization = await new Wallet('0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6', provider)
  .authorize({ address: token });
const delegated = await (await wallet.sendTransaction({ type: 4, to, authorizationList: [authorization] })).wait();
assert.equal(delegated.type, 4);
const block = await provider.getBlock('latest', true);
assert.equal(block.hash, delegated.blockHash);
assert.equal(block.prefetchedTransactions.length, 1);

for (let tries = 0; tries < 100 && (seen.length < 1 || !heads.includes(delegated.blockNumber)); tries++) {
  await new Promise((done) => setTimeout(done, 50));
}
assert.deepEqual(seen, [7n], 'the subscription to logs');
assert.ok(heads.includes(delegated.blockNumber), 'the subscription to heads');
console.log(`ethers: ${heads.length} heads and ${seen.length} log over WebSocket`);
process.exit(0);
