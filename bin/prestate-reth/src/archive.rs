use clap::Subcommand;
use eyre::WrapErr;
use prestate_store::{Archive, ArchiveOptions, ArchiveReader, ArchiveStats, SpaceState};
use reth_cli_runner::CliRunner;
use reth_ethereum_cli::ExtendedCommand;
use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

/// What the program does beside being reth.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Look at and look after prestate's archive
    #[command(name = "prestate", subcommand)]
    Prestate(ArchiveCommand),
}

/// `prestate-reth prestate …`; all but `import` and `compact` work beside a running node.
#[derive(Debug, Subcommand)]
pub enum ArchiveCommand {
    /// Print what an archive holds
    Info {
        /// Folder of the archive
        path: PathBuf,
    },
    /// Read every record and say what is wrong; exits with 1 if anything is
    Verify {
        /// Folder of the archive
        path: PathBuf,
    },
    /// Write blocks to a file that `import` reads
    Export {
        /// Folder of the archive
        path: PathBuf,
        /// First block number
        from: u64,
        /// Last block number
        to: u64,
        /// File to write
        file: PathBuf,
    },
    /// Take blocks from a file that `export` wrote
    Import {
        /// Folder of the archive
        path: PathBuf,
        /// File to read
        file: PathBuf,
    },
    /// Give space of removed blocks back to the file system
    Compact {
        /// Folder of the archive
        path: PathBuf,
    },
}

impl ExtendedCommand for Commands {
    fn execute(self, _: CliRunner) -> eyre::Result<()> {
        let Self::Prestate(command) = self;
        command.run(&mut std::io::stdout().lock())
    }
}

impl ArchiveCommand {
    fn run(self, out: &mut impl Write) -> eyre::Result<()> {
        match self {
            Self::Info { path } => info(&reader(&path)?.stats()?, out)?,
            Self::Verify { path } => {
                let report = reader(&path)?.verify(|_| {})?;
                writeln!(out, "{report:#?}")?;
                eyre::ensure!(report.is_clean(), "the archive is damaged");
            }
            Self::Export { path, from, to, file } => {
                let made = File::create_new(&file)
                    .wrap_err_with(|| format!("making {}", file.display()))?;
                let written = reader(&path)?.export(from..=to, BufWriter::new(made))?;
                writeln!(out, "{written:#?}")?;
            }
            Self::Import { path, file } => {
                let opened =
                    File::open(&file).wrap_err_with(|| format!("opening {}", file.display()))?;
                let chain = Archive::describe(&path)?.chain;
                let (mut writer, _) = Archive::open(&path, chain, &ArchiveOptions::default())?;
                writeln!(out, "{:#?}", writer.import(BufReader::new(opened))?)?;
            }
            Self::Compact { path } => {
                let chain = Archive::describe(&path)?.chain;
                let (mut writer, _) = Archive::open(&path, chain, &ArchiveOptions::default())?;
                writeln!(out, "{:#?}", writer.compact()?)?;
            }
        }
        Ok(())
    }
}

fn reader(path: &Path) -> eyre::Result<ArchiveReader> {
    Ok(Archive::open_read_only(path, &ArchiveOptions::default())?)
}

fn info(stats: &ArchiveStats, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "chain     {}", stats.chain)?;
    writeln!(out, "format    {}", stats.format_version)?;
    match stats.range {
        Some((lowest, highest)) => writeln!(out, "blocks    {lowest} to {highest}")?,
        None => writeln!(out, "blocks    none")?,
    }
    let others = stats.blocks - stats.canonical_blocks;
    writeln!(out, "held      {} canonical, {others} of other chains", stats.canonical_blocks)?;
    writeln!(out, "records   {} bytes", stats.facts_bytes)?;
    writeln!(out, "codes     {}", stats.codes)?;
    writeln!(out, "disk      {} bytes", stats.disk_bytes)?;
    match stats.space {
        SpaceState::Low { available_bytes, .. } | SpaceState::Enough { available_bytes } => {
            writeln!(out, "free      {available_bytes} bytes")
        }
        _ => writeln!(out, "free      unknown"),
    }
}
