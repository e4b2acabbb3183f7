//! The harness finds what is planted: a server that sleeps now and then, and one that works twice
//! as much.

use super::*;
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
};

/// A server that does something before each answer; it lives as long as the test.
fn server(before: impl Fn(u64) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let before = before.clone();
            thread::spawn(move || answer(stream.unwrap(), before));
        }
    });
    addr
}

fn answer(stream: TcpStream, before: impl Fn(u64)) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    for index in 0.. {
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap_or(0) > 0 && !line.ends_with("\r\n\r\n") {}
        if line.is_empty() {
            return;
        }
        before(index);
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

fn load(addr: SocketAddr) -> Load {
    Load {
        addr,
        request: b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".to_vec(),
        connections: 1,
        time: Duration::from_millis(1500),
        body_bytes: None,
    }
}

const SLEEP: Duration = Duration::from_millis(20);

#[test]
fn a_planted_sleep_shows_in_every_quantile_of_who_always_sleeps() {
    let quick = run_step(&load(server(|_| {})), 40);
    let slow = run_step(&load(server(|_| thread::sleep(SLEEP))), 40);
    assert_eq!((quick.due, slow.due), (60, 60));
    let difference = slow.quantile(0.5).saturating_sub(quick.quantile(0.5));
    assert!(difference >= SLEEP - Duration::from_millis(3), "{difference:?} of {SLEEP:?} found");
    assert!(slow.is_held() && quick.is_held());
}

#[test]
fn a_stall_is_charged_to_all_who_would_have_come_meanwhile() {
    // Once, half a second: one request in sixty sleeps, twenty are due meanwhile.
    let stalls = |index| {
        if index == 10 {
            thread::sleep(Duration::from_millis(500));
        }
    };
    let step = run_step(&load(server(stalls)), 40);
    let late = step.times.iter().filter(|time| **time > Duration::from_millis(100)).count();
    assert!(late >= 10, "{late} late answers of {}", step.times.len());
    assert!(step.quantile(1.0) >= Duration::from_millis(490));
}

#[test]
fn a_server_that_breaks_off_is_counted_and_not_averaged() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    let step = run_step(&load(addr), 40);
    assert_eq!((step.answered, step.times.len()), (0, 0));
    assert_eq!((step.failures.total(), step.failures.of(Failure::Cut)), (60, 60));
    assert!(!step.is_held());
    assert_eq!(step.quantile(0.99), Duration::ZERO);
}

/// CPU of this thread alone would be the server's; the load's closed loop sees it as its rate.
#[test]
fn a_planted_double_cost_halves_the_rate() {
    fn work(rounds: u64) {
        let mut value = 1u64;
        for round in 0..rounds * 400_000 {
            value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) ^ round);
        }
    }
    let addrs = [server(|_| work(1)), server(|_| work(2))];
    let mut rates = [Vec::new(), Vec::new()];
    // In alternation, so that whatever else the machine does falls on both.
    for _ in 0..7 {
        for (addr, rates) in addrs.iter().zip(&mut rates) {
            let load = Load { time: Duration::from_millis(150), ..load(*addr) };
            rates.push(load.run().rate());
        }
    }
    let [one, two] = rates.map(|rates| crate::report::middle(&rates).unwrap());
    let ratio = one / two;
    assert!((1.5..2.7).contains(&ratio), "twice the work takes {ratio:.2} times as long");
}
