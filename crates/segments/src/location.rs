use crate::{
    LocationError, SegmentsError,
    http::Connector,
    manifest::{MANIFEST_VERSION, Manifest, SegmentEntry, Unreadable},
};
use alloy_primitives::{B256, keccak256};
use bytes::Bytes;
use object_store::{
    ObjectStore, ObjectStoreExt, RetryConfig, aws::AmazonS3Builder, local::LocalFileSystem,
    path::Path,
};
use std::{
    fmt, fs,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{runtime::Runtime, task::JoinHandle};
use url::Url;

const MANIFEST: &str = "manifest.json";
const SEGMENTS: &str = "segments";

/// A bucket that does not answer for this long is given up; what was done stays done.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// Attempts at one request within that time.
const MAX_RETRIES: usize = 5;

/// A folder or bucket with segments.
///
/// | text | is |
/// |---|---|
/// | a path, `file:///PATH` | a local folder |
/// | `s3://BUCKET/PREFIX` | a bucket of S3 or of something compatible |
///
/// A bucket's settings come from the usual variables: `AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` or `AWS_DEFAULT_REGION`,
/// `AWS_ENDPOINT_URL`; without keys, from the machine's role (web identity, container,
/// instance).
pub struct Location {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    shown: String,
    runtime: Runtime,
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.shown).finish()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// What a text names.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    Bucket { name: String, prefix: String },
}

fn place(given: &str) -> Result<Place, LocationError> {
    let malformed = |reason| LocationError::Malformed { given: given.to_owned(), reason };
    if !given.contains("://") {
        return if given.is_empty() {
            Err(malformed("a path or URL is wanted"))
        } else {
            Ok(Place::Folder(given.into()))
        };
    }
    let url = Url::parse(given).map_err(|_| malformed("not a URL"))?;
    match url.scheme() {
        "file" => url
            .to_file_path()
            .map(Place::Folder)
            .map_err(|()| malformed("a file URL has an absolute path and no host")),
        "s3" => {
            let name = url.host_str().filter(|host| !host.is_empty());
            let name = name.ok_or_else(|| malformed("the bucket is missing"))?;
            if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
                return Err(malformed("s3://BUCKET/PREFIX and nothing else is wanted"));
            }
            let prefix = url.path().trim_matches('/').to_owned();
            Ok(Place::Bucket { name: name.to_owned(), prefix })
        }
        _ => Err(malformed("paths, file:// and s3:// are known")),
    }
}

impl Location {
    /// A location to read from; a folder must be there. `endpoint` is where the bucket's service
    /// is, if not at Amazon.
    ///
    /// # Errors
    ///
    /// As [`LocationError`] says. A bucket is not asked yet.
    pub fn open(given: &str, endpoint: Option<&str>) -> Result<Self, LocationError> {
        Self::new(given, endpoint, false)
    }

    /// A location to write to; a folder is made if need be.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn create(given: &str, endpoint: Option<&str>) -> Result<Self, LocationError> {
        Self::new(given, endpoint, true)
    }

    fn new(given: &str, endpoint: Option<&str>, create: bool) -> Result<Self, LocationError> {
        let (store, prefix): (Arc<dyn ObjectStore>, _) = match place(given)? {
            Place::Folder(path) => (Arc::new(folder(&path, create)?), Path::default()),
            Place::Bucket { name, prefix } => {
                let error = |source| LocationError::Bucket { given: given.to_owned(), source };
                let prefix = Path::parse(prefix).map_err(|source| error(source.into()))?;
                (Arc::new(bucket(&name, endpoint).map_err(error)?), prefix)
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(LocationError::Runtime)?;
        Ok(Self { store, prefix, shown: given.to_owned(), runtime })
    }

    fn at(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn segment(digest: &B256) -> String {
        format!("{SEGMENTS}/{digest:x}.segment")
    }

    /// How an object is called in messages.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.shown.trim_end_matches('/'))
    }

    pub(crate) fn segment_object(&self, digest: &B256) -> String {
        self.object(&Self::segment(digest))
    }

    fn error(
        &self,
        operation: &'static str,
        name: &str,
    ) -> impl FnOnce(object_store::Error) -> SegmentsError + use<> {
        let object = self.object(name);
        move |source| SegmentsError::Object { operation, object, source }
    }

    /// What the location holds.
    ///
    /// # Errors
    ///
    /// [`SegmentsError::NoManifest`], [`SegmentsError::Manifest`],
    /// [`SegmentsError::NewerVersion`], [`SegmentsError::Object`].
    pub fn manifest(&self) -> Result<Manifest, SegmentsError> {
        self.find_manifest()?
            .ok_or_else(|| SegmentsError::NoManifest { location: self.shown.clone() })
    }

    pub(crate) fn find_manifest(&self) -> Result<Option<Manifest>, SegmentsError> {
        let at = self.at(MANIFEST);
        let read = self.runtime.block_on(async { self.store.get(&at).await?.bytes().await });
        let json = match read {
            Ok(json) => json,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.error("read", MANIFEST)(error)),
        };
        let object = self.object(MANIFEST);
        Manifest::from_json(&json).map(Some).map_err(|unreadable| match unreadable {
            Unreadable::Newer(found) => {
                SegmentsError::NewerVersion { object, found, supported: MANIFEST_VERSION }
            }
            Unreadable::Malformed(reason) => SegmentsError::Manifest { object, reason },
        })
    }

    /// Replaces the manifest, at once.
    pub(crate) fn write_manifest(&self, manifest: &Manifest) -> Result<(), SegmentsError> {
        self.put(MANIFEST, manifest.to_json().into())
    }

    fn put(&self, name: &str, bytes: Bytes) -> Result<(), SegmentsError> {
        let at = self.at(name);
        let put = self.store.put(&at, bytes.into());
        self.runtime.block_on(put).map(drop).map_err(self.error("write", name))
    }

    /// Whether a segment is there, as long as it should be.
    pub(crate) fn holds(&self, digest: &B256, bytes: u64) -> Result<bool, SegmentsError> {
        let name = Self::segment(digest);
        match self.runtime.block_on(self.store.head(&self.at(&name))) {
            Ok(meta) => Ok(meta.size == bytes),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.error("look at", &name)(error)),
        }
    }

    pub(crate) fn put_segment(&self, digest: &B256, bytes: Bytes) -> Result<(), SegmentsError> {
        self.put(&Self::segment(digest), bytes)
    }

    /// Starts reading a segment.
    pub(crate) fn begin_fetch(&self, entry: &SegmentEntry) -> Fetch {
        let (store, at) = (Arc::clone(&self.store), self.at(&Self::segment(&entry.digest)));
        let read = async move { store.get(&at).await?.bytes().await };
        Fetch { entry: *entry, running: self.runtime.spawn(read) }
    }

    /// Waits for a segment and makes sure that it is the one.
    pub(crate) fn finish_fetch(&self, fetch: Fetch) -> Result<Bytes, SegmentsError> {
        let Fetch { entry, running } = fetch;
        let name = Self::segment(&entry.digest);
        let damaged =
            |reason: String| SegmentsError::Damaged { object: self.object(&name), reason };
        let bytes = match self.runtime.block_on(running) {
            Ok(read) => read.map_err(self.error("read", &name))?,
            Err(error) => return Err(damaged(error.to_string())),
        };
        if bytes.len() as u64 != entry.bytes {
            let (found, wanted) = (bytes.len(), entry.bytes);
            return Err(damaged(format!("it has {found} bytes, {wanted} are wanted")));
        }
        let (content, stored) =
            bytes.split_last_chunk::<32>().ok_or_else(|| damaged("it is too short".to_owned()))?;
        let found = keccak256(content);
        if found != entry.digest || entry.digest != *stored {
            return Err(damaged(format!("its digest is {found}")));
        }
        Ok(bytes)
    }
}

/// A segment on its way.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) entry: SegmentEntry,
    running: JoinHandle<object_store::Result<Bytes>>,
}

fn folder(path: &FilePath, create: bool) -> Result<LocalFileSystem, LocationError> {
    let error = |operation| {
        let path = path.to_owned();
        move |source| LocationError::Folder { operation, path, source }
    };
    if create {
        fs::create_dir_all(path).map_err(error("make folder"))?;
    }
    // Also tells a file from a folder.
    fs::read_dir(path).map_err(error("list"))?;
    let folder = LocalFileSystem::new_with_prefix(path)
        .map_err(|source| error("enter")(std::io::Error::other(source)))?;
    // An export that said it is done must outlive a loss of power.
    Ok(folder.with_fsync(true))
}

fn bucket(name: &str, endpoint: Option<&str>) -> object_store::Result<impl ObjectStore + use<>> {
    let from_env = || std::env::var("AWS_ENDPOINT_URL").ok();
    let endpoint = endpoint.map(str::to_owned).or_else(from_env);
    // Who writes http:// means it.
    let plain = endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(name)
        .with_retry(retry)
        .with_http_connector(Connector { tls: !plain });
    if let Some(endpoint) = endpoint {
        builder = builder.with_allow_http(plain).with_endpoint(endpoint);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_the_places_they_name() {
        let folder = |path: &str| Place::Folder(path.into());
        let bucket = |prefix: &str| Place::Bucket { name: "b".into(), prefix: prefix.into() };
        for (text, named) in [
            ("some/folder", folder("some/folder")),
            ("/a b", folder("/a b")),
            ("file:///a%20b/c", folder("/a b/c")),
            ("s3://b", bucket("")),
            ("s3://b/", bucket("")),
            ("s3://b/x/y/", bucket("x/y")),
        ] {
            assert_eq!(place(text).unwrap(), named, "{text}");
        }
        for text in ["", "://", "ftp://b/x", "s3:///x", "file://host/x", "s3://b/x?y", "s3://u@b/x"]
        {
            let error = place(text).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
