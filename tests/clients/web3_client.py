"""web3.py against a dev chain: python web3_client.py URL WS_URL TOKEN_ARTEFACT"""

import asyncio
import json
import sys

from eth_account import Account
from web3 import AsyncWeb3, Web3, WebSocketProvider
from web3.exceptions import ContractCustomError, Web3RPCError

url, ws_url, artefact_file = sys.argv[1:]
with open(artefact_file) as file:
    artefact = json.load(file)
web3 = Web3(Web3.HTTPProvider(url))
account = Account.from_key("0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a")
other = Account.from_key("0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba")
to = Web3.to_checksum_address("0x00000000000000000000000000000000000e7a03")


def send(tx):
    full = {
        "chainId": 31337,
        "nonce": web3.eth.get_transaction_count(account.address, "pending"),
        "gas": 3_000_000,
        **tx,
    }
    if "gasPrice" not in full:
        full.update({"maxFeePerGas": 5 * 10**9, "maxPriorityFeePerGas": 10**9})
    blobs = {"blobs": full.pop("blobs")} if "blobs" in full else {}
    signed = account.sign_transaction(full, **blobs)
    return web3.eth.wait_for_transaction_receipt(web3.eth.send_raw_transaction(signed.raw_transaction))


async def subscribed(seen, ready, done):
    async with AsyncWeb3(WebSocketProvider(ws_url)) as live:
        await live.eth.subscribe("newHeads")
        await live.eth.subscribe("logs", {"address": token_address})
        ready.set()
        async for message in live.socket.process_subscriptions():
            result = message["result"]
            seen.append(("log", int(result["data"].hex(), 16)) if "topics" in result else ("head", result["number"]))
            if done(seen):
                return


assert web3.is_connected() and web3.eth.chain_id == 31337
assert send({"to": to, "value": 1, "gasPrice": 5 * 10**9}).type == 0
assert send({"to": to, "value": 1, "gasPrice": 5 * 10**9, "accessList": []}).type == 1
plain = send({"to": to, "value": 10**18})
assert plain.type == 2 and plain.gasUsed == 21000
assert web3.eth.get_balance(to) == 10**18 + 2
assert web3.eth.get_balance(to, plain.blockNumber - 1) == 2

factory = web3.eth.contract(abi=artefact["abi"], bytecode=artefact["bytecode"])
deployed = send({"data": factory.constructor("Web3", "WEB", 1000).data_in_transaction})
token_address = deployed.contractAddress
token = web3.eth.contract(token_address, abi=artefact["abi"])
assert token.functions.symbol().call() == "WEB"


async def main():
    seen, ready = [], asyncio.Event()
    finished = lambda seen: ("log", 7) in seen and any(kind == "head" for kind, _ in seen)
    listener = asyncio.create_task(subscribed(seen, ready, finished))
    await asyncio.wait_for(ready.wait(), 10)
    data = token.encode_abi("transfer", [to, 7])
    receipt = await asyncio.to_thread(send, {"to": token_address, "data": data})
    await asyncio.wait_for(listener, 10)
    return receipt, seen


moved, seen = asyncio.run(main())
[log] = token.events.Transfer().get_logs(from_block=moved.blockNumber)
assert log.args.value == 7
assert token.functions.balanceOf(to).call() == 7
assert token.functions.balanceOf(to).call(block_identifier=moved.blockNumber - 1) == 0
assert token.functions.transfer(to, 1).estimate_gas({"from": account.address}) < 60_000
try:
    token.functions.transfer(to, 10_000).call({"from": account.address})
    raise AssertionError("a transfer of more than there is went through")
except ContractCustomError as error:
    assert error.data.startswith("0xdb42144d") or error.data, error
try:
    web3.eth.send_transaction({"from": other.address, "to": to, "value": 10**30, "gas": 21000})
    raise AssertionError("more ether than there is was sent")
except Web3RPCError as error:
    assert "insufficient funds for gas * price + value" in str(error), error

# The node signs for its own accounts; a block made by dev_setBalance is read like any other.
hash = web3.eth.send_transaction({"from": other.address, "to": to, "value": 1})
assert web3.eth.wait_for_transaction_receipt(hash).status == 1
web3.provider.make_request("dev_setBalance", [to, hex(5)])
assert web3.eth.get_block("latest", True).transactions == [] and web3.eth.get_balance(to) == 5

from eth_account.typed_transactions.set_code_transaction import SetCodeTransaction  # noqa: E402,F401

authorization = other.sign_authorization(
    {"chainId": 31337, "address": token_address, "nonce": web3.eth.get_transaction_count(other.address)}
)
delegated = send({"to": to, "value": 0, "data": b"", "authorizationList": [authorization]})
assert delegated.type == 4 and web3.eth.get_code(other.address)[:3] == bytes.fromhex("ef0100")
assert len(web3.eth.fee_history(3, "latest", [50]).baseFeePerGas) == 4
print(f"web3.py: {seen}")
