//! alloy, over HTTP and, with its own pub-sub front, over WebSocket.

use super::server::Server;
use alloy_consensus::BlockHeader;
use alloy_json_rpc::PubSubItem;
use alloy_network::{EthereumWallet, TransactionBuilder};
use alloy_primitives::{Address, B256, Bytes, U256, address, keccak256};
use alloy_provider::{Provider, ProviderBuilder};
use alloy_pubsub::{ConnectionHandle, PubSubConnect};
use alloy_rpc_types_eth::{Filter, TransactionRequest};
use alloy_signer_local::PrivateKeySigner;
use alloy_transport::{TransportErrorKind, TransportResult};
use futures_util::{SinkExt, StreamExt};
use prestate_tests::fixtures::workspace;
use serde_json::{Value, json};
use std::{fs, time::Duration};
use tokio::{net::TcpStream, runtime::Runtime, time::timeout};
use tokio_tungstenite::{client_async, tungstenite::Message};

const SOON: Duration = Duration::from_secs(20);
const TO: Address = address!("0x00000000000000000000000000000000000e7a05");

/// A WebSocket without TLS, which alloy's own would bring.
struct Socket(String);

impl PubSubConnect for Socket {
    fn is_local(&self) -> bool {
        true
    }

    async fn connect(&self) -> TransportResult<ConnectionHandle> {
        let addr = self.0.trim_start_matches("ws://");
        let stream = TcpStream::connect(addr).await.map_err(TransportErrorKind::custom)?;
        let (socket, _) =
            client_async(&*self.0, stream).await.map_err(TransportErrorKind::custom)?;
        let (mut sink, mut stream) = socket.split();
        let (handle, mut interface) = ConnectionHandle::new();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    request = interface.recv_from_frontend() => {
                        let Some(request) = request else { return };
                        let text = Message::text(request.get());
                        sink.send(text).await.expect("the server is up");
                    }
                    message = stream.next() => {
                        let Some(Ok(Message::Text(text))) = message else { return };
                        let item: PubSubItem = serde_json::from_str(&text).expect("JSON-RPC");
                        let _ = interface.send_to_frontend(item);
                    }
                }
            }
        });
        Ok(handle)
    }
}

fn token_init() -> Bytes {
    let artefact = fs::read(workspace().join("etc/contracts/out/Token.json")).expect("it is there");
    let artefact: Value = serde_json::from_slice(&artefact).expect("JSON");
    let code: Bytes = artefact["bytecode"].as_str().expect("code").parse().expect("hex");
    // Empty name and symbol: (0x60, 0x80, 1000, "", "").
    let words = [0x60_u64, 0x80, 1000, 0, 0].map(|word| U256::from(word).to_be_bytes::<32>());
    [code.to_vec(), words.concat()].concat().into()
}

#[test]
fn sends_waits_reads_logs_and_subscribes() {
    let server = Server::start([] as [&str; 0]);
    Runtime::new().expect("a runtime").block_on(talk(&server));
}

async fn talk(server: &Server) {
    let key = "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6";
    let signer: PrivateKeySigner = key.parse().expect("a key");
    let from = signer.address();
    let url = server.url().parse().expect("a URL");
    let http = ProviderBuilder::new().wallet(EthereumWallet::from(signer)).connect_http(url);
    let live = ProviderBuilder::new()
        .connect_pubsub_with(Socket(server.ws_url()))
        .await
        .expect("it connects");
    let mut heads = live.subscribe_blocks().await.expect("heads").into_stream();

    let sent = http
        .send_transaction(TransactionRequest::default().with_to(TO).with_value(U256::from(5)))
        .await
        .expect("it is taken");
    let receipt = sent.get_receipt().await.expect("it is mined");
    assert!(receipt.status());
    assert_eq!(http.get_balance(TO).await.expect("a balance"), U256::from(5));
    let head = timeout(SOON, heads.next()).await.expect("soon").expect("a head");
    assert_eq!(Some(head.hash), receipt.block_hash);
    let block = http.get_block(head.hash.into()).full().await.expect("no error").expect("a block");
    assert_eq!(block.header.inner.hash_slow(), head.hash, "every field of the header is there");
    assert_eq!(block.transactions.len(), 1);
    assert_eq!(block.header.number(), 1);

    let deploy = TransactionRequest::default().with_deploy_code(token_init());
    let deployed = http.send_transaction(deploy).await.expect("it is taken");
    let token = deployed.get_receipt().await.expect("mined").contract_address.expect("new");
    let filter = Filter::new().address(token);
    let mut logs = live.subscribe_logs(&filter).await.expect("logs").into_stream();
    let mut input = keccak256("transfer(address,uint256)")[..4].to_vec();
    input.extend_from_slice(TO.into_word().as_slice());
    input.extend_from_slice(B256::with_last_byte(7).as_slice());
    let moving = TransactionRequest::default().with_to(token).with_input(input);
    let moved = http.send_transaction(moving).await.expect("it is taken");
    let moved = moved.get_receipt().await.expect("it is mined");
    let log = timeout(SOON, logs.next()).await.expect("soon").expect("a log");
    assert_eq!(log.transaction_hash, Some(moved.transaction_hash));
    let found = http.get_logs(&filter.clone().from_block(0)).await.expect("logs");
    assert_eq!(found.len(), 2, "the supply and the transfer");
    assert_eq!(found[1], log);

    // A reorg takes the log back, marked; the branch may bring it again.
    server.call("dev_reorg", json!([1]));
    let taken = timeout(SOON, logs.next()).await.expect("soon").expect("a log");
    assert!(taken.removed);
    assert_eq!(taken.transaction_hash, log.transaction_hash);
    server.call("dev_mine", json!([]));
    let again = timeout(SOON, logs.next()).await.expect("soon").expect("a log");
    assert!(!again.removed);
    assert_eq!(http.get_transaction_count(from).await.expect("a nonce"), 3);
    println!("alloy: two heads and three logs over WebSocket");
}
