//! Policy: CEL expressions that every model must keep.
//!
//! An expression sees `model` (the merged intent as it would be written, `model.spec.serving.decode.gpus`), `objects` (what
//! it renders to), `environment` (its name) and `gpus` (how many GPUs the model takes). It must give `true`.

use super::repository::{PolicyRule, PolicySeverity};
use super::{Intent, rules};
use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Program, Value};
use rayon::prelude::*;
use stator_core::finding::{Finding, Severity, closest_match};
use stator_core::mask;
use std::collections::HashMap;
use std::sync::Arc;

/// What an expression may refer to.
const VARIABLES: [&str; 4] = ["environment", "gpus", "model", OBJECTS];
/// The variable of the rendered objects, which few expressions look at.
const OBJECTS: &str = "objects";
/// How deep `all`, `exists`, `map` and `filter` may be nested: an intent is small, so two levels end in good time.
const MAX_NESTED_LOOPS: usize = 2;
/// How many of them one expression may have.
const MAX_LOOPS: usize = 8;
/// How long an expression may be, in bytes.
const MAX_EXPRESSION_BYTES: usize = 10_000;
/// How many rules an environment may have, those of the repository included.
pub(crate) const MAX_RULES: usize = 200;
/// The most that judging one model by one rule may cost, in about a nanosecond each: see [`evaluation_cost`].
const MAX_COST: u64 = 1_000_000_000;
/// The most that judging all models of a commit by all rules may cost.
const MAX_TOTAL_COST: u64 = 60 * MAX_COST;
/// What compiling a regular expression costs, which is done again with each use.
const MATCHES_COST: u64 = 10_000_000;
/// The longest piece of a parser's message that is shown, in characters.
const MAX_REASON_LENGTH: usize = 200;

/// Policy rules, compiled once for many models.
#[derive(Debug)]
pub struct CompiledPolicy {
    rules: Vec<(PolicyRule, Result<Program, String>)>,
    /// Whether any looks at rendered objects.
    sees_objects: bool,
}

/// A model that is judged.
#[derive(Clone, Debug)]
pub struct JudgedModel<'a> {
    /// The model.
    pub intent: &'a Intent,
    /// The GPUs that it takes.
    pub gpus: u64,
    /// What it renders to.
    pub objects: Vec<&'a serde_json::Value>,
}

impl CompiledPolicy {
    /// Compiles rules. One that does not compile fails for every model.
    pub fn new(rules: &[PolicyRule]) -> Self {
        let rules: Vec<_> = rules.iter().map(|rule| (rule.clone(), compile_expression(&rule.expression))).collect();
        let programs = || rules.iter().filter_map(|(_, program)| program.as_ref().ok());
        let sees_objects = programs().any(|program| program.references().variables().contains(&OBJECTS));
        Self { rules, sees_objects }
    }

    /// True without a rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What is said of each model, with the GPUs that it takes. All of a commit may cost so much and no more, counted in steps
    /// and not in seconds: the same commit has the same findings on every machine. What comes after that, in the order of the
    /// models, is refused. `spent` are the steps of the models before these.
    pub fn judge(&self, models: &[JudgedModel<'_>], environment: &str, spent: &mut u64) -> Vec<Vec<Finding>> {
        if self.rules.is_empty() {
            return vec![Vec::new(); models.len()];
        }
        let costs: Vec<u64> = models.par_iter().map(|model| self.cost_of(model)).collect();
        let is_affordable: Vec<bool> = costs
            .into_iter()
            .map(|cost| {
                *spent = spent.saturating_add(cost);
                *spent <= MAX_TOTAL_COST
            })
            .collect();
        let judged = models.par_iter().zip(is_affordable).map(|(model, is_affordable)| {
            if is_affordable {
                return self.evaluate(model, environment);
            }
            vec![Finding::error(
                rules::POLICY_FAILED,
                model.intent.origins.locate("metadata.name"),
                "the policies take too many steps for the models of this commit, so this model is not checked",
                "Simplify the expressions in `stator.yaml`, or split the repository.",
            )]
        });
        judged.collect()
    }

    /// What judging a model costs at most. A rule that is not begun costs nothing.
    fn cost_of(&self, model: &JudgedModel<'_>) -> u64 {
        let size = self.size_of(model, &serde_json::to_value(&model.intent.model).unwrap_or_default());
        let programs = self.rules.iter().filter_map(|(_, program)| program.as_ref().ok());
        let costs = programs.map(|program| evaluation_cost(program.expression(), size));
        costs.filter(|cost| *cost <= MAX_COST).fold(0, u64::saturating_add)
    }

    /// How much data of a model expressions may see.
    fn size_of(&self, model: &JudgedModel<'_>, written: &serde_json::Value) -> DataSize {
        let objects = model.objects.iter().filter(|_| self.sees_objects).map(|object| DataSize::measure(object));
        let own = DataSize { longest: model.objects.len() as u64, bytes: 0 };
        objects.chain([DataSize::measure(written)]).fold(own, DataSize::and)
    }

    /// A finding for every rule that a model breaks, and for every one that cannot be evaluated.
    pub(crate) fn evaluate(&self, judged: &JudgedModel<'_>, environment: &str) -> Vec<Finding> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let JudgedModel { intent, gpus, objects } = judged;
        let (intent, gpus) = (*intent, *gpus);
        let mut context = Context::default();
        let model = serde_json::to_value(&intent.model).unwrap_or_default();
        let size = self.size_of(judged, &model);
        if self.sees_objects {
            let objects: Vec<Value> = objects.iter().map(|object| to_cel_value(object)).collect();
            context.add_variable_from_value(OBJECTS, Value::List(Arc::new(objects)));
        }
        context.add_variable_from_value("model", to_cel_value(&model));
        context.add_variable_from_value("environment", environment);
        context.add_variable_from_value("gpus", Value::Int(i64::try_from(gpus).unwrap_or(i64::MAX)));
        self.rules.iter().filter_map(|(rule, program)| evaluate_rule(rule, program, &context, (intent, size))).collect()
    }
}

fn evaluate_rule(
    rule: &PolicyRule,
    program: &Result<Program, String>,
    context: &Context<'_, '_>,
    (intent, size): (&Intent, DataSize),
) -> Option<Finding> {
    let failed = |reason: String| {
        Finding::error(
            rules::POLICY_FAILED,
            intent.origins.locate("metadata.name"),
            format!("policy `{}` cannot be evaluated for this model: {reason}", rule.name),
            "Correct the expression in `stator.yaml`; test for fields that may be missing with `has(…)`.",
        )
    };
    let outcome = match program {
        Ok(program) if evaluation_cost(program.expression(), size) > MAX_COST => {
            return Some(failed(format!(
                "with lists of up to {} entries and {} bytes in all it would take too long",
                size.longest, size.bytes
            )));
        }
        Ok(program) => program.execute(context),
        Err(reason) => return Some(failed(reason.clone())),
    };
    match outcome {
        Ok(Value::Bool(true)) => None,
        Ok(Value::Bool(false)) => {
            let severity = match rule.severity {
                PolicySeverity::Error => Severity::Error,
                PolicySeverity::Warning => Severity::Warning,
            };
            let finding = Finding::error(
                rules::POLICY_VIOLATED,
                intent.origins.locate("metadata.name"),
                format!("policy `{}`: {}", rule.name, rule.message),
                format!("Change the model so that this is true: {}", rule.expression),
            );
            Some(Finding { severity, ..finding })
        }
        Ok(other) => Some(failed(format!("it returns {}, not true or false", other.type_of()))),
        Err(error) => Some(failed(error.to_string())),
    }
}

/// Compiles an expression, or says in a sentence why it is none.
pub(crate) fn compile_expression(expression: &str) -> Result<Program, String> {
    if expression.len() > MAX_EXPRESSION_BYTES {
        return Err(format!("it is longer than {MAX_EXPRESSION_BYTES} bytes"));
    }
    let program = Program::compile(expression).map_err(|errors| {
        // The first says what is wrong; the parser's attempts to go on make the others.
        match errors.errors.first() {
            Some(error) => {
                let reason: String = mask::redact_tokens(&error.msg).chars().take(MAX_REASON_LENGTH).collect();
                format!("{reason} (column {} of the expression)", error.pos.1)
            }
            None => "it cannot be parsed".to_owned(),
        }
    })?;
    let mut loops = 0;
    if loop_depth(program.expression(), &mut loops) > MAX_NESTED_LOOPS || loops > MAX_LOOPS {
        return Err(format!(
            "more than {MAX_NESTED_LOOPS} nested or {MAX_LOOPS} altogether of `all`, `exists`, `map` and `filter`"
        ));
    }
    let mut unknown = Vec::new();
    collect_unknown_names(program.expression(), &mut Vec::new(), &mut unknown);
    if let Some(name) = unknown.first() {
        let meant = closest_match(name, VARIABLES).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
        return Err(format!("unknown variable `{name}`; known: `model`, `objects`, `environment` and `gpus`{meant}"));
    }
    Ok(program)
}

/// The parts of an expression. The parser bounds its depth.
fn subexpressions(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).collect(),
        Expr::Comprehension(it) => {
            vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&*select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_subexpressions(&entry.expr)).collect(),
        Expr::Struct(made) => made.entries.iter().flat_map(|entry| entry_subexpressions(&entry.expr)).collect(),
    }
}

fn entry_subexpressions(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// How much data an expression may see.
#[derive(Clone, Copy, Debug)]
struct DataSize {
    /// Entries of the longest list or map.
    longest: u64,
    /// Bytes of everything.
    bytes: u64,
}

impl DataSize {
    /// Of both.
    fn and(self, other: Self) -> Self {
        Self { longest: self.longest.max(other.longest), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn measure(value: &serde_json::Value) -> Self {
        let sum = |parts: &mut dyn Iterator<Item = Self>, count: usize| {
            let own = Self { longest: count as u64, bytes: 16 };
            parts.fold(own, Self::and)
        };
        match value {
            serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
                Self { longest: 0, bytes: 8 }
            }
            serde_json::Value::String(text) => Self { longest: 0, bytes: 8 + text.len() as u64 },
            serde_json::Value::Array(items) => sum(&mut items.iter().map(Self::measure), items.len()),
            serde_json::Value::Object(fields) => sum(&mut fields.values().map(Self::measure), fields.len()),
        }
    }
}

/// What evaluating an expression costs at most, in bytes that are looked at: every loop goes over the longest list there is,
/// and every call reads all of the data. The interpreter has no limit of its own and cannot be stopped, so what would take
/// too long is not begun.
fn evaluation_cost(expression: &IdedExpr, size: DataSize) -> u64 {
    let mut joins = 0;
    let mut literal = 0;
    survey_lists(expression, &mut joins, &mut literal);
    // What `+` puts together is longer than each of its parts.
    let factor = joins + 1;
    let size = DataSize {
        longest: size.longest.max(literal).saturating_mul(factor),
        bytes: size.bytes.saturating_mul(factor),
    };
    part_cost(expression, size)
}

fn survey_lists(expression: &IdedExpr, joins: &mut u64, literal: &mut u64) {
    match &expression.expr {
        Expr::Call(call) => *joins += u64::from(call.func_name == "_+_"),
        Expr::List(list) => *literal = (*literal).max(list.elements.len() as u64),
        Expr::Map(map) => *literal = (*literal).max(map.entries.len() as u64),
        Expr::Unspecified
        | Expr::Ident(_)
        | Expr::Literal(_)
        | Expr::Comprehension(_)
        | Expr::Select(_)
        | Expr::Struct(_) => {}
    }
    subexpressions(expression).into_iter().for_each(|part| survey_lists(part, joins, literal));
}

fn part_cost(expression: &IdedExpr, size: DataSize) -> u64 {
    let sum = |parts: &[&IdedExpr]| parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part_cost(part, size)));
    match &expression.expr {
        Expr::Comprehension(it) => {
            let each = sum(&[&it.loop_cond, &it.loop_step]);
            sum(&[&it.iter_range, &it.accu_init, &it.result]).saturating_add(each.saturating_mul(size.longest))
        }
        Expr::Call(call) => {
            let own = if call.func_name == "matches" { MATCHES_COST } else { 0 };
            own.saturating_add(size.bytes).saturating_add(sum(&subexpressions(expression)))
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 1,
        Expr::List(_) | Expr::Map(_) | Expr::Select(_) | Expr::Struct(_) => {
            sum(&subexpressions(expression)).saturating_add(1)
        }
    }
}

/// How deep loops are nested; counts them all.
fn loop_depth(expression: &IdedExpr, loops: &mut usize) -> usize {
    let own = usize::from(matches!(expression.expr, Expr::Comprehension(_)));
    *loops += own;
    subexpressions(expression).into_iter().map(|part| loop_depth(part, loops)).max().unwrap_or(0) + own
}

/// Names that are neither variables nor bound by a loop.
fn collect_unknown_names<'a>(expression: &'a IdedExpr, bound: &mut Vec<&'a str>, unknown: &mut Vec<&'a str>) {
    if let Expr::Ident(name) = &expression.expr {
        // Types are values in CEL: `type(x) == int`.
        let types = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];
        if !bound.contains(&name.as_str()) && !VARIABLES.contains(&name.as_str()) && !types.contains(&name.as_str()) {
            unknown.push(name);
        }
        return;
    }
    let before = bound.len();
    if let Expr::Comprehension(it) = &expression.expr {
        bound.push(&it.iter_var);
        bound.push(&it.accu_var);
        bound.extend(it.iter_var2.as_deref());
    }
    for part in subexpressions(expression) {
        collect_unknown_names(part, bound, unknown);
    }
    bound.truncate(before);
}

/// JSON as CEL sees it: whole numbers are ints, so that they compare with plain literals.
fn to_cel_value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap_or_default()),
        },
        serde_json::Value::String(text) => Value::String(Arc::new(text.clone())),
        serde_json::Value::Array(items) => Value::List(Arc::new(items.iter().map(to_cel_value).collect())),
        serde_json::Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), to_cel_value(field)))
            .collect::<HashMap<String, Value>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::tests::{QWEN, ROOT, loaded, report, workspace};
    use proptest::prelude::*;

    fn judged(expression: &str) -> String {
        let root = format!(
            "{ROOT}  policy:\n    - {{name: rule, message: Too big., expression: {}}}\n",
            serde_json::to_string(expression).unwrap()
        );
        let workspace = workspace(&[("stator.yaml", &root), ("m/model.yaml", QWEN)]);
        let selection = workspace.resolve_environment(Some("prod")).unwrap();
        match loaded(&selection).first() {
            Some(intent) => report(
                &CompiledPolicy::new(&selection.policy)
                    .evaluate(&JudgedModel { intent, gpus: 8, objects: Vec::new() }, "prod"),
            ),
            None => report(&selection.findings),
        }
    }

    #[test]
    fn a_policy_that_holds_says_nothing() {
        for expression in [
            "gpus <= 8",
            "environment != 'prod' || model.spec.serving.worker.replicas >= 1",
            "!has(model.spec.sla)",
            "model.spec.serving.worker.args.all(a, a.startsWith('--'))",
            "model.metadata.name.matches('^q[a-z]+$')",
            "type(gpus) == int",
        ] {
            assert_eq!(judged(expression), "", "{expression}");
        }
    }

    #[test]
    fn a_broken_policy_names_the_model_and_the_rule() {
        insta::assert_snapshot!(judged("gpus < 8"), @r#"
        m/model.yaml:4:9 error policy/violated: policy `rule`: Too big.
          help: Change the model so that this is true: gpus < 8
        "#);
    }

    #[test]
    fn an_expression_that_cannot_be_evaluated_is_a_finding() {
        insta::assert_snapshot!(judged("gpus + 1"), @r#"
        m/model.yaml:4:9 error policy/failed: policy `rule` cannot be evaluated for this model: it returns int, not true or false
          help: Correct the expression in `stator.yaml`; test for fields that may be missing with `has(…)`.
        "#);
        insta::assert_snapshot!(judged("model.spec.sla.ttft == '1s'"), @r#"
        m/model.yaml:4:9 error policy/failed: policy `rule` cannot be evaluated for this model: No such key: sla
          help: Correct the expression in `stator.yaml`; test for fields that may be missing with `has(…)`.
        "#);
        insta::assert_snapshot!(judged("gpus / 0 == 1"), @r#"
        m/model.yaml:4:9 error policy/failed: policy `rule` cannot be evaluated for this model: Division by zero of Int(8)
          help: Correct the expression in `stator.yaml`; test for fields that may be missing with `has(…)`.
        "#);
        insta::assert_snapshot!(judged("nosuch(gpus)"), @r#"
        m/model.yaml:4:9 error policy/failed: policy `rule` cannot be evaluated for this model: Undeclared reference to 'nosuch'
          help: Correct the expression in `stator.yaml`; test for fields that may be missing with `has(…)`.
        "#);
    }

    #[test]
    fn an_expression_that_does_not_compile_is_found_where_it_stands() {
        insta::assert_snapshot!(judged("gpus <"), @r#"
        stator.yaml:15:51 error policy/compile: not a CEL expression: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER} (column 7 of the expression)
          help: Correct it; `stator explain policy` shows the variables of an expression.
        "#);
        insta::assert_snapshot!(judged("modle.spec.model != ''"), @r#"
        stator.yaml:15:51 error policy/compile: not a CEL expression: unknown variable `modle`; known: `model`, `objects`, `environment` and `gpus`; did you mean `model`?
          help: Correct it; `stator explain policy` shows the variables of an expression.
        "#);
        insta::assert_snapshot!(judged("[1].all(a, [a].all(b, [b].all(c, c > 0)))"), @r#"
        stator.yaml:15:51 error policy/compile: not a CEL expression: more than 2 nested or 8 altogether of `all`, `exists`, `map` and `filter`
          help: Correct it; `stator explain policy` shows the variables of an expression.
        "#);
        insta::assert_snapshot!(judged(&"(".repeat(2000)), @r#"
        stator.yaml:15:51 error policy/compile: not a CEL expression: Syntax error: OtherError(ParseError { source: None, pos: (96, -1), msg: "Recursion limit of 96 exceeded", expr_id: 0, source_info: None }) (column 97 of the expression)
          help: Correct it; `stator explain policy` shows the variables of an expression.
        "#);
    }

    /// Row S4 of the review: a list of a hundred thousand entries under two loops kept a thread for hours.
    #[test]
    fn what_would_take_too_long_is_not_begun() {
        let root = |expression: &str| {
            let expression = serde_json::to_string(expression).unwrap();
            format!("{ROOT}  policy:\n    - {{name: rule, message: Too big., expression: {expression}}}\n")
        };
        let judged = |expression: &str, arguments: usize| {
            let many: String = (0..arguments).map(|n| format!("'--a{n}', ")).collect();
            let model = QWEN.replace("args: [--a, --b]", &format!("args: [{many}]"));
            assert_ne!(model, QWEN);
            let workspace = workspace(&[("stator.yaml", &root(expression)), ("m/model.yaml", &model)]);
            let selection = workspace.resolve_environment(Some("prod")).unwrap();
            let intents = loaded(&selection);
            let intent = intents.first().unwrap_or_else(|| panic!("{}", report(&selection.findings)));
            report(
                &CompiledPolicy::new(&selection.policy)
                    .evaluate(&JudgedModel { intent, gpus: 8, objects: Vec::new() }, "prod"),
            )
        };
        let args = "model.spec.serving.worker.args";
        let pairs = format!("{args}.all(a, {args}.exists(b, a == b + 'x' || true))");
        let patterns = format!("{args}.all(a, a.matches('^--'))");
        for (expression, arguments) in [(&pairs, 40), (&patterns, 40), (&format!("{args}.all(a, a != '')"), 2000)] {
            assert_eq!(judged(expression, arguments), "", "{expression}");
        }
        insta::assert_snapshot!(judged(&pairs, 50_000), @"
        m/model.yaml:4:9 error policy/failed: policy `rule` cannot be evaluated for this model: with lists of up to 50000 entries and 789140 bytes in all it would take too long
          help: Correct the expression in `stator.yaml`; test for fields that may be missing with `has(…)`.
        ");
        insta::assert_snapshot!(judged(&patterns, 50_000), @"
        m/model.yaml:4:9 error policy/failed: policy `rule` cannot be evaluated for this model: with lists of up to 50000 entries and 789140 bytes in all it would take too long
          help: Correct the expression in `stator.yaml`; test for fields that may be missing with `has(…)`.
        ");
    }

    proptest! {
        #[test]
        fn no_expression_makes_it_panic(text in "[a-z0-9.()\\[\\]{}+*/%<>=!&|?:,'\" -]{0,60}") {
            if let Ok(program) = compile_expression(&text) {
                let mut context = Context::default();
                context.add_variable_from_value("gpus", Value::Int(1));
                let _ = program.execute(&context);
            }
        }
    }
}
