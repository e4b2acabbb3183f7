use super::*;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn shapes_are_read() {
    let shape = |text: &str| text.parse::<Shape>().unwrap();
    let whole = shape("rtt=30ms,rate=100/s,bandwidth=50mbit");
    let ms = Duration::from_millis;
    assert_eq!(whole, Shape { rtt: ms(30), rate: Some(100), bandwidth: Some(50_000_000) });
    assert!(whole.is_far());
    assert_eq!(shape("rtt=1.5s"), Shape { rtt: ms(1500), ..Shape::default() });
    assert_eq!(shape("bandwidth=9600bit").bandwidth, Some(9600));
    assert_eq!(shape("bandwidth=1gbit").bandwidth, Some(1_000_000_000));
    assert!(!shape("rate=7/s").is_far());
}

#[test]
fn what_is_no_shape_is_named() {
    for text in [
        "",
        "rtt",
        "rtt=",
        "rtt=30",
        "rtt=-1ms",
        "rtt=11s",
        "rtt=nanms",
        "rate=100",
        "rate=0/s",
        "rate=1.5/s",
        "bandwidth=50mb",
        "bandwidth=0bit",
        "bandwidth=99999999999999999999gbit",
        "bandwidth=é",
        "delay=3ms",
        "rtt=30ms,",
        "bandwidth=mbit",
        "rtt=30µs",
    ] {
        let error = text.parse::<Shape>().unwrap_err();
        assert!(error.starts_with('`'), "{text}: {error}");
    }
}

#[test]
fn a_bucket_holds_the_calls_of_a_second() {
    let bucket = Bucket::new(3);
    let taken: Vec<_> = (0..5).map(|_| bucket.take()).collect();
    assert!(taken[..3].iter().all(Result::is_ok));
    let error = taken[4].as_ref().unwrap_err();
    assert_eq!(error.code, -32005);
    assert_eq!(error.message, "rate limit exceeded: 3 calls a second");
}

/// Bytes arrive whole and in order, and never before the line lets them.
#[tokio::test]
async fn a_line_is_long_and_thin() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = server.accept().await.unwrap();
        let mut asked = [0; 4];
        stream.read_exact(&mut asked).await.unwrap();
        let answer: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        stream.write_all(&answer).await.unwrap();
    });
    let shape: Shape = "rtt=40ms,bandwidth=8mbit".parse().unwrap();
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = front.local_addr().unwrap();
    let line = tokio::spawn(shape.carry_to(front, to));
    let started = Instant::now();
    let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"ask!").await.unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(80), "one to connect, one to ask");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(180), "100 kB take 100 ms");
    assert_eq!(rest.len(), 99_999);
    assert!(first.iter().chain(&rest).enumerate().all(|(at, byte)| *byte == at as u8));
    line.abort();
}
