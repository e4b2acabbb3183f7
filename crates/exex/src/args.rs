use clap::Args;
use prestate_lane::{JwtSecret, JwtSecretError, LaneConfig};
use prestate_pipeline::PipelineConfig;
use prestate_rpc::{DEFAULT_CACHE_BYTES, RpcConfig};
use prestate_store::{ArchiveOptions, DEFAULT_RESERVE_BYTES, MIN_KEPT_BLOCKS, Retention};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

/// Beside reth's own 8545 (HTTP), 8546 (WebSocket) and 8551 (engine).
pub const DEFAULT_LANE_PORT: u16 = 8547;

/// What `reth node` learns. The ids are the flags' names: those of the fields are reth's already.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Prestate")]
pub struct PrestateArgs {
    /// Address the lane listens on
    #[arg(id = "prestate.http.addr", long = "prestate.http.addr", value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub http_addr: IpAddr,
    /// Port the lane listens on; 0 takes a free one
    #[arg(id = "prestate.http.port", long = "prestate.http.port", value_name = "PORT", default_value_t = DEFAULT_LANE_PORT)]
    pub http_port: u16,
    /// Namespaces or methods the lane serves, comma separated; those of the node that its HTTP,
    /// WebSocket or IPC has may be among them [default: all of prestate's, and what the node
    /// serves over HTTP or WebSocket, or else eth,net,web3]
    #[arg(
        id = "prestate.http.api",
        long = "prestate.http.api",
        value_name = "LIST",
        value_delimiter = ','
    )]
    pub http_api: Option<Vec<String>>,
    /// Origins that may call the lane from a browser, comma separated, `*` for any
    #[arg(
        id = "prestate.http.corsdomain",
        long = "prestate.http.corsdomain",
        value_name = "LIST",
        value_delimiter = ','
    )]
    pub http_corsdomain: Vec<String>,
    /// Host names the lane serves, comma separated, `*` for any; IP literals always pass
    #[arg(id = "prestate.http.vhosts", long = "prestate.http.vhosts", value_name = "LIST", value_delimiter = ',', default_value = prestate_lane::DEFAULT_VHOST)]
    pub http_vhosts: Vec<String>,
    /// File with a 256-bit secret in hex: the lane asks for a bearer token (HS256)
    #[arg(id = "prestate.http.jwtsecret", long = "prestate.http.jwtsecret", value_name = "FILE")]
    pub http_jwtsecret: Option<PathBuf>,
    /// Do not open the lane
    #[arg(id = "prestate.http.disable", long = "prestate.http.disable")]
    pub http_disable: bool,
    /// Folder of the archive [default: `prestate` in the node's data folder]
    #[arg(id = "prestate.datadir", long = "prestate.datadir", value_name = "PATH")]
    pub datadir: Option<PathBuf>,
    /// Keep diffs in memory only
    #[arg(id = "prestate.no-archive", long = "prestate.no-archive", conflicts_with_all = ["prestate.datadir", "prestate.retention", "prestate.backfill"])]
    pub no_archive: bool,
    /// How long blocks are kept: `blocks=N`, `bytes=N` or `forever`
    #[arg(
        id = "prestate.retention",
        long = "prestate.retention",
        value_name = "RULE",
        default_value = "forever"
    )]
    pub retention: RetentionArg,
    /// Free bytes on the archive's disk below which nothing is written
    #[arg(id = "prestate.reserve", long = "prestate.reserve", value_name = "BYTES", default_value_t = DEFAULT_RESERVE_BYTES)]
    pub reserve_bytes: u64,
    /// Fill the archive with these older blocks beside the live chain: `FROM..TO`, inclusive
    #[arg(id = "prestate.backfill", long = "prestate.backfill", value_name = "FROM..TO")]
    pub backfill: Option<RangeArg>,
    /// Pause of the back-fill after each block, in milliseconds
    #[arg(
        id = "prestate.backfill-pause",
        long = "prestate.backfill-pause",
        value_name = "MS",
        default_value_t = 0
    )]
    pub backfill_pause_ms: u64,
    /// Stop the node when diffs cannot be made or kept, instead of going on without
    #[arg(id = "prestate.strict", long = "prestate.strict")]
    pub strict: bool,
    /// Answer prestate and call tracer requests that come to the node's own `debug` namespace
    #[arg(id = "prestate.intercept-debug", long = "prestate.intercept-debug")]
    pub intercept_debug: bool,
    /// Reproduce Geth's three artefacts that contradict the state in every prestateTracer answer
    #[arg(id = "prestate.geth-exact", long = "prestate.geth-exact")]
    pub geth_exact: bool,
    /// Bytes of finished answers kept in memory
    #[arg(id = "prestate.cache", long = "prestate.cache", value_name = "BYTES", default_value_t = DEFAULT_CACHE_BYTES)]
    pub cache_bytes: u64,
    /// Threads that execute blocks again, and as many that serve [default: a quarter of the cores]
    #[arg(id = "prestate.workers", long = "prestate.workers", value_name = "N")]
    pub workers: Option<usize>,
}

/// `--prestate.retention`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionArg(pub Retention);

/// A retention that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of blocks=N, bytes=N, forever")]
pub struct RetentionError(String);

impl FromStr for RetentionArg {
    type Err = RetentionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || RetentionError(text.to_owned());
        if text == "forever" {
            return Ok(Self(Retention::Forever));
        }
        let (unit, number) = text.split_once('=').ok_or_else(refused)?;
        let number = number.parse().map_err(|_| refused())?;
        match unit {
            "blocks" => Ok(Self(Retention::Blocks(number))),
            "bytes" => Ok(Self(Retention::Bytes(number))),
            _ => Err(refused()),
        }
    }
}

/// `--prestate.backfill`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeArg(pub RangeInclusive<u64>);

/// A range that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no range FROM..TO of block numbers")]
pub struct RangeError(String);

impl FromStr for RangeArg {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ends = text.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
        match ends {
            Some((Ok(from), Ok(to))) if from <= to => Ok(Self(from..=to)),
            _ => Err(RangeError(text.to_owned())),
        }
    }
}

impl PrestateArgs {
    /// Why the retention does not do as asked, if so.
    pub(crate) fn short_retention(&self) -> Option<String> {
        match self.retention.0 {
            Retention::Blocks(blocks) if blocks < MIN_KEPT_BLOCKS => Some(format!(
                "{blocks} blocks are fewer than a reorg may replace: {MIN_KEPT_BLOCKS} are kept"
            )),
            _ => None,
        }
    }

    pub(crate) fn archive_options(&self) -> ArchiveOptions {
        ArchiveOptions { reserve_bytes: self.reserve_bytes, ..ArchiveOptions::default() }
    }

    pub(crate) fn pipeline_config(&self) -> PipelineConfig {
        let defaults = PipelineConfig::default();
        PipelineConfig {
            workers: self.workers.unwrap_or(defaults.workers).max(1),
            retention: self.retention.0,
            backfill_pause: Duration::from_millis(self.backfill_pause_ms),
            ..defaults
        }
    }

    pub(crate) fn rpc_config(&self) -> RpcConfig {
        RpcConfig {
            geth_exact: self.geth_exact,
            max_executions: self.pipeline_config().workers,
            cache_bytes: self.cache_bytes,
            ..RpcConfig::default()
        }
    }

    pub(crate) fn lane_config(&self) -> Result<LaneConfig, JwtSecretError> {
        Ok(LaneConfig {
            addr: SocketAddr::new(self.http_addr, self.http_port),
            corsdomain: self.http_corsdomain.clone(),
            vhosts: self.http_vhosts.clone(),
            api: self.http_api.clone(),
            jwt_secret: self.http_jwtsecret.as_deref().map(JwtSecret::from_file).transpose()?,
            ..LaneConfig::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: PrestateArgs,
    }

    fn parse(args: &[&str]) -> Result<PrestateArgs, clap::Error> {
        Program::try_parse_from([&["node"], args].concat()).map(|program| program.args)
    }

    #[test]
    fn rules_and_ranges_are_read_or_refused() {
        let args = parse(&["--prestate.retention", "blocks=100", "--prestate.backfill", "7..9"]);
        let args = args.unwrap();
        assert_eq!(args.retention.0, Retention::Blocks(100));
        assert_eq!(args.backfill, Some(RangeArg(7..=9)));
        assert_eq!(args.short_retention(), None);
        for wrong in ["blocks", "blocks=", "blocks=-1", "weeks=3", "100", ""] {
            let refused = parse(&["--prestate.retention", wrong]).unwrap_err();
            assert!(refused.to_string().contains("blocks=N"), "{wrong}: {refused}");
        }
        for wrong in ["7", "9..7", "a..b", ".."] {
            assert!(parse(&["--prestate.backfill", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_retention_within_reach_of_reorgs_is_told() {
        let args = parse(&["--prestate.retention=blocks=10"]).unwrap();
        assert!(args.short_retention().unwrap().contains("64"));
    }

    #[test]
    fn memory_only_excludes_what_needs_an_archive() {
        assert!(parse(&["--prestate.no-archive"]).unwrap().no_archive);
        assert!(parse(&["--prestate.no-archive", "--prestate.datadir", "x"]).is_err());
    }
}
