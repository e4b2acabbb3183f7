/// An argument as it may be shown and stored: of a URL only scheme, host and port, since the user,
/// the path and the query are where providers put keys.
///
/// ```
/// use prestate_bench::without_secrets;
///
/// assert_eq!(without_secrets("geth=https://u:p@node.example:8545/v2/KEY?k=1"), "geth=https://node.example:8545/…");
/// assert_eq!(without_secrets("http://127.0.0.1:8545"), "http://127.0.0.1:8545");
/// assert_eq!(without_secrets("--rounds"), "--rounds");
/// ```
pub fn without_secrets(argument: &str) -> String {
    let Some((before, after)) = argument.split_once("://") else { return argument.to_owned() };
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    // A user's name may hold an `@`; a host does not.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let hidden = host.len() < authority.len() || !matches!(rest, "" | "/");
    format!("{before}://{host}{}", if hidden { "/…" } else { "" })
}
