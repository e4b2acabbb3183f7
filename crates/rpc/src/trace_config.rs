//! The options of the `debug_trace*` methods, read as Geth reads them.

mod duration;
pub(crate) mod go_json;

use go_json::{Fields, fold, object};
use prestate_rpc_api::RpcError;
use prestate_types::{CallOptions, FlatCallOptions, PrestateOptions, StructLogOptions, Tracer};
use serde_json::value::RawValue;
use std::time::Duration;

/// How long one transaction may be traced if the caller does not say
/// (Geth `eth/tracers/api.go`, `defaultTraceTimeout`).
pub const DEFAULT_TRACE_TIMEOUT: Duration = Duration::from_secs(5);

/// Deepest nesting of `muxTracer` in itself.
pub const MAX_MUX_DEPTH: usize = 8;

/// What a `debug_trace*` method was asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceConfig {
    /// The tracer with its options. Geth builds the tracer only when it comes to a transaction,
    /// so that an unknown block, or one without transactions, is answered before a refusal.
    pub tracer: Result<Tracer, Refusal>,
    /// The time a single transaction may take. Zero is up at once.
    pub timeout: Duration,
}

impl Default for TraceConfig {
    fn default() -> Self {
        Self { tracer: Ok(Tracer::StructLog(Default::default())), timeout: DEFAULT_TRACE_TIMEOUT }
    }
}

/// Why a tracer cannot be built; always -32000.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Geth's text where Geth has one.
    pub message: String,
    /// Whether the methods that trace a block report it in each transaction's `error` and succeed,
    /// as Geth does for what it takes for JavaScript, instead of failing as a whole.
    pub per_transaction: bool,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        Self::server(refusal.message)
    }
}

/// The options of `debug_traceCall`: a trace's and the call's own, which are read elsewhere.
#[derive(Debug, Clone, Default)]
pub struct TraceCallConfig {
    /// The trace's.
    pub trace: TraceConfig,
    /// `stateOverrides`.
    pub state_overrides: Option<Box<RawValue>>,
    /// `blockOverrides`.
    pub block_overrides: Option<Box<RawValue>>,
    /// `txIndex`.
    pub tx_index: Option<Box<RawValue>>,
}

impl TraceConfig {
    /// Reads the options object at this position in `params`; left out and null are the defaults.
    ///
    /// # Errors
    /// -32602 with Geth's text if a member has the wrong type.
    pub fn parse(raw: Option<&RawValue>, argument: usize) -> Result<Self, RpcError> {
        let names = Names { value: "tracers.TraceConfig", object: "TraceConfig", path: "" };
        Ok(read(raw, &names).map_err(|text| invalid_argument(argument, &text))?.trace)
    }
}

impl TraceCallConfig {
    /// As [`TraceConfig::parse`], for `debug_traceCall`.
    pub fn parse(raw: Option<&RawValue>, argument: usize) -> Result<Self, RpcError> {
        let names = Names {
            value: "tracers.TraceCallConfig",
            object: "TraceCallConfig",
            path: "TraceConfig.",
        };
        read(raw, &names).map_err(|text| invalid_argument(argument, &text))
    }
}

fn invalid_argument(argument: usize, text: &str) -> RpcError {
    RpcError::invalid_params(format!("invalid argument {argument}: {text}"))
}

/// Go's names of the struct read, for errors.
struct Names {
    value: &'static str,
    object: &'static str,
    path: &'static str,
}

fn read(raw: Option<&RawValue>, names: &Names) -> Result<TraceCallConfig, String> {
    let mut config = TraceCallConfig::default();
    let Some(members) = raw.map_or(Ok(None), |raw| object(raw, names.value))? else {
        return Ok(config);
    };
    let path = |field: &str| format!("{}{field}", names.path);
    let mut fields = Fields::of(names.object);
    let mut logger = StructLogOptions::default();
    let (mut tracer, mut timeout, mut tracer_config) = (None, None, None);
    let call = !names.path.is_empty();
    for (key, value) in &members {
        match fold(key).as_str() {
            "enablememory" => {
                fields.bool(value, &path("Config.EnableMemory"), &mut logger.enable_memory);
            }
            "disablestack" => {
                fields.bool(value, &path("Config.DisableStack"), &mut logger.disable_stack);
            }
            "disablestorage" => {
                fields.bool(value, &path("Config.DisableStorage"), &mut logger.disable_storage);
            }
            "enablereturndata" => {
                let field = path("Config.EnableReturnData");
                fields.bool(value, &field, &mut logger.enable_return_data);
            }
            "limit" => fields.int(value, &path("Config.Limit"), &mut logger.limit),
            "overrides" => {
                fields.any_object(value, &path("Config.overrides"), "params.ChainConfig");
            }
            "tracer" => fields.string(value, &path("Tracer"), &mut tracer),
            "timeout" => fields.string(value, &path("Timeout"), &mut timeout),
            "tracerconfig" => tracer_config = Some(*value),
            "stateoverrides" if call => config.state_overrides = present(value),
            "blockoverrides" if call => config.block_overrides = present(value),
            "txindex" if call => config.tx_index = present(value),
            // Unknown options are ignored; among them `reexec`, which Geth dropped in v1.17.3.
            _ => {}
        }
    }
    fields.done()?;

    config.trace.tracer = match tracer {
        None => Ok(Tracer::StructLog(logger)),
        Some(name) => named(&name, tracer_config, 0),
    };
    if let Some(text) = timeout {
        match duration::parse(&text) {
            Ok(timeout) => config.trace.timeout = timeout,
            // Geth builds the tracer first.
            Err(text) => {
                if config.trace.tracer.is_ok() {
                    config.trace.tracer = Err(whole(text));
                }
            }
        }
    }
    Ok(config)
}

fn present(value: &RawValue) -> Option<Box<RawValue>> {
    (value.get() != "null").then(|| value.to_owned())
}

fn whole(message: String) -> Refusal {
    Refusal { message, per_transaction: false }
}

/// A tracer by name, as Geth's directory of tracers builds it (`eth/tracers/dir.go`).
fn named(name: &str, config: Option<&RawValue>, depth: usize) -> Result<Tracer, Refusal> {
    match name {
        "prestateTracer" => prestate(config).map(Tracer::Prestate).map_err(whole),
        "callTracer" => call(config).map(Tracer::Call).map_err(whole),
        "flatCallTracer" => flat_call(config).map(Tracer::FlatCall).map_err(whole),
        // These two take no options and do not look at what they are given.
        "4byteTracer" => Ok(Tracer::FourByte),
        "noopTracer" => Ok(Tracer::Noop),
        "muxTracer" => mux(config, depth),
        // Native in Geth, not offered here.
        "erc7562Tracer" | "keccak256PreimageTracer" => {
            Err(whole(format!("tracer {name} is not available")))
        }
        _ => {
            let shown: String = name.chars().take(64).collect();
            let message =
                format!("tracer {shown} is not available: JavaScript tracers are not supported");
            Err(Refusal { message, per_transaction: true })
        }
    }
}

fn prestate(config: Option<&RawValue>) -> Result<PrestateOptions, String> {
    let mut options = PrestateOptions::default();
    let mut fields = Fields::of("PrestateTracerConfig");
    for (key, value) in members(config, "native.PrestateTracerConfig")? {
        match fold(&key).as_str() {
            "diffmode" => fields.bool(value, "diffMode", &mut options.diff_mode),
            "disablecode" => fields.bool(value, "disableCode", &mut options.fields.disable_code),
            "disablestorage" => {
                fields.bool(value, "disableStorage", &mut options.fields.disable_storage);
            }
            "includeempty" => fields.bool(value, "includeEmpty", &mut options.include_empty),
            "exact" => fields.bool(value, "exact", &mut options.exact),
            _ => {}
        }
    }
    fields.done()?;
    if options.diff_mode && options.include_empty {
        return Err("cannot use diffMode with includeEmpty".to_owned());
    }
    Ok(options)
}

fn call(config: Option<&RawValue>) -> Result<CallOptions, String> {
    let mut options = CallOptions::default();
    let mut fields = Fields::of("callTracerConfig");
    for (key, value) in members(config, "native.callTracerConfig")? {
        match fold(&key).as_str() {
            "onlytopcall" => fields.bool(value, "onlyTopCall", &mut options.only_top_call),
            "withlog" => fields.bool(value, "withLog", &mut options.with_log),
            _ => {}
        }
    }
    fields.done()?;
    Ok(options)
}

fn flat_call(config: Option<&RawValue>) -> Result<FlatCallOptions, String> {
    let mut options = FlatCallOptions::default();
    let mut fields = Fields::of("flatCallTracerConfig");
    for (key, value) in members(config, "native.flatCallTracerConfig")? {
        match fold(&key).as_str() {
            "convertparityerrors" => {
                fields.bool(value, "convertParityErrors", &mut options.convert_parity_errors);
            }
            "includeprecompiles" => {
                fields.bool(value, "includePrecompiles", &mut options.include_precompiles);
            }
            _ => {}
        }
    }
    fields.done()?;
    Ok(options)
}

/// Geth goes through the map in no order; ascending here, so that answers repeat.
fn mux(config: Option<&RawValue>, depth: usize) -> Result<Tracer, Refusal> {
    if depth == MAX_MUX_DEPTH {
        return Err(whole(format!("muxTracer nested more than {MAX_MUX_DEPTH} deep")));
    }
    let mut children = members(config, "map[string]json.RawMessage").map_err(whole)?;
    // The last of equal names wins: sort is stable, so keep the last of each run.
    children.sort_by(|a, b| a.0.cmp(&b.0));
    children.reverse();
    children.dedup_by(|next, kept| next.0 == kept.0);
    children.reverse();
    let tracers = children.into_iter().map(|(name, config)| {
        let tracer =
            named(&name, Some(config), depth + 1).map_err(|refusal| whole(refusal.message))?;
        Ok((name, tracer))
    });
    tracers.collect::<Result<_, _>>().map(Tracer::Mux)
}

fn members<'a>(
    config: Option<&'a RawValue>,
    go_type: &str,
) -> Result<Vec<(String, &'a RawValue)>, String> {
    config.map_or(Ok(None), |raw| object(raw, go_type)).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prestate_types::GethOptions;

    fn parse(text: &str) -> Result<TraceConfig, RpcError> {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        TraceConfig::parse(Some(&raw), 1)
    }

    fn tracer(text: &str) -> Result<Tracer, String> {
        parse(text).unwrap().tracer.map_err(|refusal| refusal.message)
    }

    #[test]
    fn nothing_is_the_struct_logger() {
        let default = TraceConfig::default();
        assert_eq!(TraceConfig::parse(None, 1), Ok(default.clone()));
        for text in ["null", "{}", "{\"tracer\":null,\"timeout\":null}", "{\"reexec\":\"x\"}"] {
            assert_eq!(parse(text), Ok(default.clone()), "{text}");
        }
    }

    #[test]
    fn struct_logger_options() {
        let text = r#"{"EnableMemory":true,"disablestack":true,"disableStorage":true,
            "ENABLERETURNDATA":true,"limit":-7,"overrides":{"berlinBlock":"x"},"timeout":"1m"}"#;
        let options = StructLogOptions {
            enable_memory: true,
            disable_stack: true,
            disable_storage: true,
            enable_return_data: true,
            limit: -7,
        };
        let config = parse(text).unwrap();
        assert_eq!(config.tracer, Ok(Tracer::StructLog(options)));
        assert_eq!(config.timeout, Duration::from_secs(60));
    }

    #[test]
    fn tracers_with_options() {
        let prestate = r#"{"tracer":"prestateTracer","tracerConfig":
            {"diffMode":true,"disableCode":true,"disableStorage":true,"exact":true,"x":[]}}"#;
        assert_eq!(
            tracer(prestate),
            Ok(Tracer::Prestate(PrestateOptions {
                diff_mode: true,
                fields: GethOptions { disable_code: true, disable_storage: true },
                include_empty: false,
                exact: true,
            }))
        );
        let call = r#"{"tracer":"callTracer","tracerConfig":{"withLog":true,"onlyTopCall":false}}"#;
        assert_eq!(
            tracer(call),
            Ok(Tracer::Call(CallOptions { with_log: true, only_top_call: false }))
        );
        let flat = r#"{"tracer":"flatCallTracer","tracerConfig":{"convertparityerrors":true,"includePrecompiles":null}}"#;
        assert_eq!(
            tracer(flat),
            Ok(Tracer::FlatCall(FlatCallOptions {
                convert_parity_errors: true,
                include_precompiles: false
            }))
        );
        for name in ["noopTracer", "4byteTracer"] {
            assert!(tracer(&format!("{{\"tracer\":\"{name}\",\"tracerConfig\":5}}")).is_ok());
        }
    }

    #[test]
    fn mux_is_sorted_and_the_last_of_equal_names_wins() {
        let text = r#"{"tracer":"muxTracer","tracerConfig":{"noopTracer":null,
            "callTracer":{"withLog":5},"callTracer":{"withLog":true},"muxTracer":{"4byteTracer":{}}}}"#;
        let call = Tracer::Call(CallOptions { with_log: true, only_top_call: false });
        let inner = Tracer::Mux(vec![("4byteTracer".to_owned(), Tracer::FourByte)]);
        assert_eq!(
            tracer(text),
            Ok(Tracer::Mux(vec![
                ("callTracer".to_owned(), call),
                ("muxTracer".to_owned(), inner),
                ("noopTracer".to_owned(), Tracer::Noop),
            ]))
        );
        assert_eq!(tracer(r#"{"tracer":"muxTracer"}"#), Ok(Tracer::Mux(Vec::new())));
    }

    #[test]
    fn mux_depth_is_bounded() {
        let nest = |depth: usize| {
            let mut config = "{}".to_owned();
            for _ in 0..depth {
                config = format!("{{\"muxTracer\":{config}}}");
            }
            tracer(&format!("{{\"tracer\":\"muxTracer\",\"tracerConfig\":{config}}}"))
        };
        assert!(nest(MAX_MUX_DEPTH - 1).is_ok());
        assert_eq!(nest(MAX_MUX_DEPTH).unwrap_err(), "muxTracer nested more than 8 deep");
    }

    /// Measured against Geth v1.17.10, `debug_traceTransaction`.
    #[test]
    fn wrong_types_are_invalid_arguments() {
        for (text, message) in [
            ("5", "json: cannot unmarshal number into Go value of type tracers.TraceConfig"),
            ("true", "json: cannot unmarshal bool into Go value of type tracers.TraceConfig"),
            ("\"x\"", "json: cannot unmarshal string into Go value of type tracers.TraceConfig"),
            ("[1]", "json: cannot unmarshal array into Go value of type tracers.TraceConfig"),
            (
                r#"{"limit":"x","tracer":5}"#,
                "json: cannot unmarshal string into Go struct field TraceConfig.Config.Limit of type int",
            ),
            (
                r#"{"tracer":5,"limit":"x"}"#,
                "json: cannot unmarshal number into Go struct field TraceConfig.Tracer of type string",
            ),
            (
                r#"{"limit":1e2}"#,
                "json: cannot unmarshal number 1e2 into Go struct field TraceConfig.Config.Limit of type int",
            ),
            (
                r#"{"limit":99999999999999999999}"#,
                "json: cannot unmarshal number 99999999999999999999 into Go struct field TraceConfig.Config.Limit of type int",
            ),
            (
                r#"{"enableMemory":1}"#,
                "json: cannot unmarshal number into Go struct field TraceConfig.Config.EnableMemory of type bool",
            ),
            (
                r#"{"ENABLEMEMORY":true,"disablestack":"x"}"#,
                "json: cannot unmarshal string into Go struct field TraceConfig.Config.DisableStack of type bool",
            ),
            (
                r#"{"timeout":5}"#,
                "json: cannot unmarshal number into Go struct field TraceConfig.Timeout of type string",
            ),
            (
                r#"{"overrides":5}"#,
                "json: cannot unmarshal number into Go struct field TraceConfig.Config.overrides of type params.ChainConfig",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(
                (error.code, error.message),
                (-32602, format!("invalid argument 1: {message}"))
            );
        }
    }

    /// Measured against Geth v1.17.10, `debug_traceTransaction`.
    #[test]
    fn tracers_are_refused_when_a_transaction_comes() {
        for (text, message) in [
            (
                r#"{"tracer":"callTracer","tracerConfig":5}"#,
                "json: cannot unmarshal number into Go value of type native.callTracerConfig",
            ),
            (
                r#"{"tracer":"callTracer","tracerConfig":{"withLog":1,"onlyTopCall":[]}}"#,
                "json: cannot unmarshal number into Go struct field callTracerConfig.withLog of type bool",
            ),
            (
                r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":"true"}}"#,
                "json: cannot unmarshal string into Go struct field PrestateTracerConfig.diffMode of type bool",
            ),
            (
                r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":"x","diffmode":true}}"#,
                "json: cannot unmarshal string into Go struct field PrestateTracerConfig.diffMode of type bool",
            ),
            (
                r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":true,"includeEmpty":true}}"#,
                "cannot use diffMode with includeEmpty",
            ),
            (
                r#"{"tracer":"flatCallTracer","tracerConfig":[]}"#,
                "json: cannot unmarshal array into Go value of type native.flatCallTracerConfig",
            ),
            (
                r#"{"tracer":"muxTracer","tracerConfig":5}"#,
                "json: cannot unmarshal number into Go value of type map[string]json.RawMessage",
            ),
            (
                r#"{"tracer":"muxTracer","tracerConfig":{"callTracer":5}}"#,
                "json: cannot unmarshal number into Go value of type native.callTracerConfig",
            ),
            (r#"{"tracer":"callTracer","timeout":"x"}"#, "time: invalid duration \"x\""),
            (
                r#"{"tracer":"callTracer","timeout":"x","tracerConfig":5}"#,
                "json: cannot unmarshal number into Go value of type native.callTracerConfig",
            ),
        ] {
            assert_eq!(tracer(text).unwrap_err(), message, "{text}");
        }
    }

    #[test]
    fn javascript_is_refused_for_each_transaction_but_inside_mux() {
        let refusal = |text: &str| parse(text).unwrap().tracer.unwrap_err();
        let js = refusal(r#"{"tracer":"{data: []}"}"#);
        assert!(js.per_transaction);
        assert_eq!(
            js.message,
            "tracer {data: []} is not available: JavaScript tracers are not supported"
        );
        assert!(!refusal(r#"{"tracer":"muxTracer","tracerConfig":{"x":{}}}"#).per_transaction);
        assert!(!refusal(r#"{"tracer":"erc7562Tracer"}"#).per_transaction);
        assert_eq!(RpcError::from(js).code, -32000);
    }

    #[test]
    fn call_options_name_their_own_struct() {
        let raw = RawValue::from_string(
            r#"{"stateOverrides":{"a":1},"txIndex":null,"tracer":"callTracer"}"#.to_owned(),
        )
        .unwrap();
        let config = TraceCallConfig::parse(Some(&raw), 2).unwrap();
        assert_eq!(config.state_overrides.unwrap().get(), "{\"a\":1}");
        assert!(config.tx_index.is_none() && config.block_overrides.is_none());
        assert_eq!(config.trace.tracer, Ok(Tracer::Call(CallOptions::default())));
        let raw = RawValue::from_string(r#"{"limit":true}"#.to_owned()).unwrap();
        assert_eq!(
            TraceCallConfig::parse(Some(&raw), 2).unwrap_err().message,
            "invalid argument 2: json: cannot unmarshal bool into Go struct field TraceCallConfig.TraceConfig.Config.Limit of type int"
        );
    }
}
