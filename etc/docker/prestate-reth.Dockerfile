# A reth node with prestate in it. Build from the root of the repository:
#
#   docker build -f etc/docker/prestate-reth.Dockerfile -t prestate-reth .
#   docker run -v reth-data:/data -p 127.0.0.1:8545:8545 -p 127.0.0.1:8547:8547 prestate-reth \
#     node --datadir /data --http --http.addr 0.0.0.0 \
#     --prestate.http.addr 0.0.0.0 --prestate.http.vhosts '*'
#
# Linking takes about 8 GB of memory, building half an hour on eight cores.
FROM rust:1.95-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends clang libclang-dev cmake pkg-config \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --locked --release --manifest-path bin/prestate-reth/Cargo.toml \
    && cp bin/prestate-reth/target/release/prestate-reth /usr/local/bin/

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /data reth
COPY --from=build /usr/local/bin/prestate-reth /usr/local/bin/
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/prestate-reth/
USER reth
VOLUME /data
# RPC, WebSocket, the lane, engine, metrics, peers.
EXPOSE 8545 8546 8547 8551 9001 30303/tcp 30303/udp
# The node stops on SIGINT, and writes what it has in memory.
STOPSIGNAL SIGINT
ENTRYPOINT ["prestate-reth"]
CMD ["node", "--datadir", "/data"]
