use super::{Reserve, Target, size, spinner};
use crate::{errors::CommandError, follow::BlockRange, replay::progress};
use clap::Args;
use prestate_segments::{DEFAULT_SEGMENT_BLOCKS, ExportOptions, ImportOptions, Location};
use prestate_store::{Archive, ArchiveReader, ArchiveWriter, ChainId, ImportError, SegmentHeader};
use serde_json::json;
use std::{
    fs::File,
    io::{BufReader, Read},
    num::NonZeroU64,
    path::Path,
    process::ExitCode,
};

/// Where a bucket is.
#[derive(Debug, Args)]
struct Endpoint {
    /// Service of the bucket, if not Amazon's; http:// is taken as it is. Keys and region come
    /// from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

/// `prestate archive export`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    target: Target,
    /// Folder, file:///PATH or s3://BUCKET/PREFIX; segments that are there are passed over
    #[arg(long, value_name = "PATH|URL")]
    to: String,
    /// Heights to export, both ends included [default: all]
    #[arg(long, value_name = "FROM..TO")]
    blocks: Option<BlockRange>,
    /// Segments end at multiples of this many blocks; always give a location the same
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEGMENT_BLOCKS)]
    segment_blocks: NonZeroU64,
    /// Leave out the segment at the head, which is still growing
    #[arg(long)]
    sealed: bool,
    #[command(flatten)]
    endpoint: Endpoint,
}

/// `prestate archive import`
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    target: Target,
    /// What `export --to` was given, or one segment file; the archive is made if need be
    #[arg(long, value_name = "PATH|URL")]
    from: String,
    /// Only segments with blocks of these heights [default: all]
    #[arg(long, value_name = "FROM..TO")]
    blocks: Option<BlockRange>,
    /// Where the archive's chain goes another way than the segments', follow the segments
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    endpoint: Endpoint,
    #[command(flatten)]
    reserve: Reserve,
}

pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode, CommandError> {
    let reader = args.target.reader()?;
    let location = Location::create(&args.to, args.endpoint.endpoint.as_deref())?;
    let mut options = ExportOptions {
        segment_blocks: args.segment_blocks,
        sealed: args.sealed,
        ..ExportOptions::default()
    };
    if let Some(BlockRange(numbers)) = &args.blocks {
        options.numbers = numbers.clone();
    }
    let bar = progress(0, "exporting");
    let report = prestate_segments::export(&reader, &location, &options, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    let text = format!(
        "{} blocks: {} segments written ({}), {} were there",
        report.blocks,
        report.written,
        size(report.written_bytes),
        report.present
    );
    let json = json!({
        "path": args.target.dir,
        "to": args.to,
        "blocks": report.blocks,
        "written": report.written,
        "writtenBytes": report.written_bytes,
        "present": report.present,
        "replaced": report.replaced,
    });
    args.target.report(text, &json)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn import(args: &ImportArgs) -> Result<ExitCode, CommandError> {
    let path = Path::new(&args.from);
    if path.is_file() {
        return import_file(args, path);
    }
    let location = Location::open(&args.from, args.endpoint.endpoint.as_deref())?;
    let (mut writer, _) = open(args, location.manifest()?.chain())?;
    let mut options = ImportOptions { follow: args.follow, ..ImportOptions::default() };
    if let Some(BlockRange(numbers)) = &args.blocks {
        options.numbers = numbers.clone();
    }
    let bar = progress(0, "importing");
    let report = prestate_segments::import(&mut writer, &location, &options, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    let mut text = format!(
        "{} blocks, {} of them new: {} segments read ({}), {} were held",
        report.blocks,
        report.stored,
        report.segments,
        size(report.bytes),
        report.present
    );
    if report.reverted > 0 {
        text = format!("{text}; {} blocks lost their place", report.reverted);
    }
    let json = json!({
        "path": args.target.dir,
        "from": args.from,
        "blocks": report.blocks,
        "stored": report.stored,
        "segments": report.segments,
        "bytes": report.bytes,
        "present": report.present,
        "reverted": report.reverted,
    });
    args.target.report(text, &json)?;
    Ok(ExitCode::SUCCESS)
}

/// The archive to import into; a new one is of the segments' chain.
fn open(
    args: &ImportArgs,
    segments: ChainId,
) -> Result<(ArchiveWriter, ArchiveReader), CommandError> {
    Ok(Archive::open_or_create(&args.target.dir, segments, &args.reserve.options())?)
}

fn import_file(args: &ImportArgs, path: &Path) -> Result<ExitCode, CommandError> {
    if args.blocks.is_some() || args.follow || args.endpoint.endpoint.is_some() {
        let text = format!("{}: a file is taken whole, without other options", path.display());
        return Err(CommandError::Usage(text));
    }
    let failed = |source: ImportError| CommandError::Segment { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(|error| failed(error.into()))?;
    let mut header = [0; SegmentHeader::LEN];
    file.read_exact(&mut header).map_err(|_| failed(ImportError::NotASegment))?;
    let chain = SegmentHeader::from_bytes(&header).map_err(failed)?.chain;
    let (mut writer, _) = open(args, chain)?;
    let bar = spinner("importing");
    let report = writer.import(header.chain(BufReader::new(file))).map_err(failed)?;
    bar.finish_and_clear();
    let text = format!("{} blocks, {} of them new", report.blocks, report.stored);
    let json = json!({
        "path": args.target.dir,
        "from": args.from,
        "blocks": report.blocks,
        "stored": report.stored,
        "codes": report.codes,
        "digest": report.digest,
    });
    args.target.report(text, &json)?;
    Ok(ExitCode::SUCCESS)
}
