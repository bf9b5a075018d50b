//! Rules in CEL (`x-kubernetes-validations`), with the functions that Kubernetes adds to the language and the bundled
//! schemas use: `quantity` and its comparisons, and the string extensions.
//!
//! No rule is left out. One that cannot be evaluated is a violation of its own kind, with the reason, rather than passed over
//! in silence: a cluster may serve rules that use what this evaluator does not have.

use super::{ValidationIssue, ViolationKind, predecessor};
use crate::fields::schema::{CelRule, JsonType, SchemaNode};
use crate::fields::type_ref::{TypeRef, values_equal};
use crate::object::{PathSegment, Quantity};
use cel::extractors::This;
use cel::objects::{Opaque, OptionalValue};
use cel::{Context, Env, ExecutionError, Value as CelValue};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

static CEL_ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // The names of the extension are new to a fresh environment, so adding it cannot fail; a rule that misses one of
    // its functions would say so.
    let _ = env.add_extension(cel::extensions::strings);
    Arc::new(env)
});

/// Judges a value and everything in it by the rules of its schema, but for those whose message is `covered`.
pub(super) fn check(
    node: &SchemaNode,
    value: &Value,
    old: Option<&Value>,
    covered: &[&str],
    path: &mut Vec<PathSegment>,
    faults: &mut Vec<ValidationIssue>,
) {
    for rule in &node.rules {
        if rule.message.as_deref().is_some_and(|message| covered.contains(&message)) {
            continue;
        }
        if let Err((message, kind)) = evaluate_rule(rule, node, value, old) {
            faults.push(ValidationIssue::new(path, message).of_kind(kind));
        }
    }
    node.for_each_child(value, path, |child, value, path| {
        let before = match path.last() {
            Some(PathSegment::Field(name)) => old.and_then(|old| old.get(name)),
            Some(_) | None => {
                old.and_then(Value::as_array).and_then(|old| predecessor(TypeRef::Declared(node), value, old))
            }
        };
        // As an API server: what did not change is no reason to refuse the rest.
        if before.is_none_or(|before| !values_equal(before, value)) {
            check(child, value, before, covered, path, faults);
        }
    });
}

/// The message when the rule does not hold, and whether that is known.
fn evaluate_rule(
    rule: &CelRule,
    node: &SchemaNode,
    value: &Value,
    old: Option<&Value>,
) -> Result<(), (String, ViolationKind)> {
    // Most rules are about a field that most values do not have, and a value is made ready for CEL as a whole.
    if rule.holds_without.iter().any(|field| value.as_object().is_some_and(|map| !map.contains_key(field))) {
        return Ok(());
    }
    let unknown = |message: String| (message, ViolationKind::UnevaluatedRule);
    let broken = |message: String| {
        let rule = rule.message.as_ref().unwrap_or(&rule.rule).clone();
        (message, ViolationKind::BrokenRule { rule })
    };
    let program = rule.program.get_or_init(|| CEL_ENV.compile(&rule.rule).map_err(|error| error.to_string()));
    let program = program.as_ref().map_err(|error| unknown(format!("rule compile error: {error}: {}", rule.rule)))?;
    let mut context = cel_context();
    if program.references().has_variable("oldSelf") {
        let old = match (old, rule.optional_old_self) {
            // A rule about a transition says nothing of what is new.
            (None, false) => return Ok(()),
            (None, true) => CelValue::Opaque(Arc::new(OptionalValue::none())),
            (Some(old), false) => to_cel(Some(node), old),
            (Some(old), true) => CelValue::Opaque(Arc::new(OptionalValue::of(to_cel(Some(node), old)))),
        };
        context.add_variable_from_value("oldSelf", old);
    }
    context.add_variable_from_value("self", to_cel(Some(node), value));
    match program.execute(&context) {
        Ok(CelValue::Bool(true)) => Ok(()),
        Ok(CelValue::Bool(false)) => Err(broken(match &rule.message {
            Some(message) if value.is_string() => format!("Invalid value: {value}: {message}"),
            Some(message) => format!("Invalid value: {message}"),
            None => format!("Invalid value: failed rule: {}", rule.rule),
        })),
        Ok(_) => Err(broken(format!("Invalid value: the rule does not evaluate to true or false: {}", rule.rule))),
        Err(error) => Err(unknown(format!("Invalid value: rule evaluation error: {error}: {}", rule.rule))),
    }
}

/// A value as CEL sees it. The schema tells whole numbers from others.
fn to_cel(node: Option<&SchemaNode>, value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => {
            let float = node.is_some_and(|node| node.kind == JsonType::Number);
            match number.as_i64().filter(|_| !float) {
                Some(whole) => CelValue::Int(whole),
                None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => CelValue::from(text.as_str()),
        Value::Array(items) => {
            let node = node.and_then(|node| node.items.as_deref());
            CelValue::from(items.iter().map(|item| to_cel(node, item)).collect::<Vec<_>>())
        }
        Value::Object(map) => {
            let field = |name: &str| node.and_then(|node| node.properties.get(name).or(node.additional.as_deref()));
            let fields: HashMap<String, CelValue> =
                map.iter().map(|(name, value)| (name.clone(), to_cel(field(name), value))).collect();
            CelValue::from(fields)
        }
    }
}

impl Opaque for Quantity {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.Quantity"
    }
}

type OpaqueHandle = Arc<dyn Opaque>;

fn cel_context() -> Context<'static, 'static> {
    let mut context = Context::with_env(Arc::clone(&CEL_ENV));
    let parse = |text: Arc<String>| match Quantity::parse(&text) {
        Some(quantity) => Ok(CelValue::Opaque(Arc::new(quantity))),
        None => Err(ExecutionError::function_error("quantity", format!("{text:?} is not a quantity"))),
    };
    let is = |text: Arc<String>| Quantity::parse(&text).is_some();
    let greater =
        |This(a): This<OpaqueHandle>, b: OpaqueHandle| Ok::<_, ExecutionError>(to_quantity(&a)? > to_quantity(&b)?);
    let less =
        |This(a): This<OpaqueHandle>, b: OpaqueHandle| Ok::<_, ExecutionError>(to_quantity(&a)? < to_quantity(&b)?);
    let order = |This(a): This<OpaqueHandle>, b: OpaqueHandle| {
        Ok::<_, ExecutionError>(to_quantity(&a)?.cmp(&to_quantity(&b)?) as i64)
    };
    let whole = |This(a): This<OpaqueHandle>| {
        to_quantity(&a)?.to_integer().ok_or_else(|| ExecutionError::function_error("asInteger", "not a whole number"))
    };
    // None of these names is taken in the standard library, so none of them can be refused.
    let _ = context.add_function("quantity", parse);
    let _ = context.add_function("isQuantity", is);
    let _ = context.add_function("isGreaterThan", greater);
    let _ = context.add_function("isLessThan", less);
    let _ = context.add_function("compareTo", order);
    let _ = context.add_function("asInteger", whole);
    context
}

fn to_quantity(value: &OpaqueHandle) -> Result<Quantity, ExecutionError> {
    value
        .downcast_ref::<Quantity>()
        .copied()
        .ok_or_else(|| ExecutionError::function_error("quantity", "not a quantity"))
}
