use super::process::Process;
use std::{
    fs, io,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// Where Debian puts it; not on everybody's `PATH`.
const CANDIDATES: [&str; 2] = ["nginx", "/usr/sbin/nginx"];

/// Starts nginx on loopback over a folder with `body.json` and `body.json.gz`. `None` if nginx is
/// not installed.
pub(crate) fn start(folder: &Path) -> io::Result<Option<(Process, SocketAddr)>> {
    let installed =
        |name: &&&str| Command::new(name).arg("-v").stderr(Stdio::null()).status().is_ok();
    let Some(nginx) = CANDIDATES.iter().find(installed) else { return Ok(None) };
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let root = folder.display();
    let config = format!(
        "daemon off;\nuser root;\nworker_processes auto;\npid {root}/nginx.pid;\nerror_log {root}/error.log;\n\
         events {{ worker_connections 512; }}\n\
         http {{\n  access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;\n\
         keepalive_requests 100000000; default_type application/json;\n\
         open_file_cache max=10;\n\
         client_body_temp_path {root}; proxy_temp_path {root}; fastcgi_temp_path {root};\n\
         uwsgi_temp_path {root}; scgi_temp_path {root};\n\
         server {{ listen 127.0.0.1:{port}; root {root}; gzip_static on; }}\n}}\n"
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, config)?;
    let mut command = Command::new(nginx);
    command.arg("-e").arg(folder.join("start.log")).arg("-c").arg(&path);
    let mut process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    for _ in 0..100 {
        if TcpStream::connect(addr).is_ok() {
            process.adopt_workers();
            return Ok(Some((process, addr)));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err(io::Error::other("nginx did not start; see its log"))
}
