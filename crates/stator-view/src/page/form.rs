//! The form for a new model, or for a change of one that is in git. It is made anew for every request: fields, text, objects
//! and plan always say the same.

use super::changes::ChangeSetText;
use super::frame::{FORM_SCRIPT, PageFrame, PageSection};
use super::models::model_address;
use super::text::{ProseText, print, value_text};
use crate::draft::JudgedDraft;
use crate::facts::{ProposalAccess, SourceFacts};
use crate::form::{
    FORM_FIELDS, FieldGroup, FieldKind, FormField, FormReading, FormSubmission, ServingLayout, ServingMode,
};
use crate::model::ManifestView;
use crate::observation::FleetObservation;
use crate::problem::RequestFault;
use askama::Template;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stator_core::finding::Severity;
use stator_model::intent::AllowedValue;
use stator_model::intent::explain::explain;

/// What the form is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormPlace<'a> {
    /// A model that git does not have yet.
    New,
    /// One that it has, by namespace and name.
    Edit {
        /// The namespace of its objects.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
    },
}

/// What the form shows.
#[derive(Clone, Copy, Debug)]
pub struct FormInput<'a> {
    /// What it is for.
    pub place: FormPlace<'a>,
    /// The source that it writes for.
    pub source: &'a SourceFacts,
    /// What was sent, or what it starts from.
    pub sent: &'a FormSubmission,
    /// What the program made of it.
    pub judged: &'a JudgedDraft,
    /// What could not be written into the text.
    pub faults: &'a [RequestFault],
    /// What else is to be known before it is submitted.
    pub notices: &'a [String],
    /// Whether somebody sent it, and not only opened it.
    pub is_sent: bool,
    /// Whether something that was touched is not in the text: then fields say what was sent.
    pub is_unwritten: bool,
    /// The text as it was sent, where another one is shown.
    pub own_text: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "form.html")]
struct FormPage {
    frame: PageFrame,
    script: &'static str,
    action: String,
    breadcrumb: Option<(String, String)>,
    is_new: bool,
    sources: Vec<(String, bool)>,
    source: String,
    file: String,
    usual_file: String,
    seen: String,
    origin: String,
    kept: String,
    own_text: String,
    title: String,
    usual_title: String,
    description: String,
    notices: Vec<ProseText>,
    /// Whether errors are to be read first: they are of what somebody did.
    has_focus: bool,
    proposals: ProposalAccess,
    base: String,
    text: String,
    choices: Vec<ChoiceText>,
    groups: Vec<GroupText>,
    problems: Vec<ProblemText>,
    warnings: Vec<ProblemText>,
    only_in_yaml: Vec<String>,
    objects: Vec<ManifestView>,
    plan: Option<PlanText>,
    patch: String,
}

struct ChoiceText {
    name: &'static str,
    title: &'static str,
    options: Vec<(&'static str, &'static str, bool)>,
}

struct GroupText {
    class: &'static str,
    title: &'static str,
    fields: Vec<InputText>,
}

struct InputText {
    id: String,
    name: String,
    label: &'static str,
    help: ProseText,
    value: String,
    /// What holds where the field is empty, or in its place.
    effective: String,
    options: Vec<OptionText>,
    is_area: bool,
    is_number: bool,
    is_hidden: bool,
    faults: Vec<ProseText>,
}

struct OptionText {
    value: String,
    text: String,
    is_on: bool,
}

struct ProblemText {
    href: String,
    place: String,
    text: ProseText,
    help: ProseText,
    allowed: Vec<String>,
}

struct PlanText {
    set: ChangeSetText,
    holds: Vec<(ProseText, ProseText)>,
}

/// The digest of a file's text, by which a form knows that it still stands.
pub fn text_digest(text: &str) -> String {
    hex::encode(Sha256::digest(text)).chars().take(32).collect()
}

/// The page of the form.
pub fn form_page(observation: &FleetObservation, input: &FormInput<'_>) -> String {
    let FormInput { place, source, sent, judged, faults, notices, is_sent, is_unwritten, own_text } = *input;
    let text = judged.draft.text.replace("\r\n", "\n");
    let reading = FormReading::read(&text);
    let mut errors = faults.to_vec();
    if let Err(problem) = judged.check_change() {
        errors.extend(problem.errors);
        errors.extend(problem.detail.filter(|_| judged.is_left_out).map(whole_fault));
    }
    // Where the text cannot be read or written, the fields say what was sent.
    let shown = match reading.clone().filter(|_| !is_unwritten) {
        Some(reading) => reading,
        None => {
            let read = reading.clone().unwrap_or_default();
            let mut values = read.values;
            values.extend(sent.values.clone());
            FormReading {
                mode: sent.mode.unwrap_or(read.mode),
                layout: sent.layout.unwrap_or(read.layout),
                values,
                only_in_yaml: read.only_in_yaml,
            }
        }
    };
    let is_new = place == FormPlace::New;
    let (title, action, breadcrumb) = match place {
        FormPlace::New => ("New model".to_owned(), "/new".to_owned(), None),
        FormPlace::Edit { namespace, name } => {
            let address = model_address(namespace, name);
            (
                format!("Edit {namespace}/{name}"),
                format!("{address}/edit"),
                Some((address, format!("{namespace}/{name}"))),
            )
        }
    };
    let groups = FieldGroup::ALL.into_iter().map(|group| GroupText {
        class: group.class(),
        title: group.title(),
        fields: FORM_FIELDS
            .iter()
            .filter(|field| field.group == group)
            .map(|field| input_text(field, &shown, judged, &errors))
            .collect(),
    });
    let planned = judged.planned().filter(|_| errors.is_empty());
    print(&FormPage {
        frame: PageFrame::fixed(title, is_new.then_some(PageSection::New)),
        script: &FORM_SCRIPT.path,
        action,
        breadcrumb,
        is_new,
        sources: observation.listed_sources().map(|one| (one.label(), one.label() == source.label())).collect(),
        source: source.label(),
        file: if is_new { sent.file.clone() } else { judged.draft.file.clone() },
        usual_file: judged.draft.file.clone(),
        seen: sent.seen.clone(),
        origin: sent.origin.clone(),
        kept: sent.kept.clone(),
        title: sent.title.clone(),
        usual_title: judged.usual_title(),
        description: sent.description.clone(),
        notices: notices.iter().map(|one| ProseText::new(one)).collect(),
        has_focus: is_sent,
        proposals: source.proposals.clone(),
        base: if reading.is_some() && !is_unwritten { text.clone() } else { sent.base.clone() },
        own_text: own_text.unwrap_or_default().to_owned(),
        text,
        choices: choices(&shown),
        groups: groups.collect(),
        problems: errors.iter().map(problem_text).collect(),
        warnings: judged.faults(Severity::Warning).iter().map(problem_text).collect(),
        only_in_yaml: shown.only_in_yaml.clone(),
        objects: if errors.is_empty() { judged.manifests() } else { Vec::new() },
        patch: if errors.is_empty() { judged.patch() } else { String::new() },
        plan: planned.map(|planned| PlanText {
            set: ChangeSetText::new(&planned.changes, Some(planned.environment_gpus)),
            holds: planned
                .holds
                .iter()
                .map(|hold| (ProseText::new(&hold.message), ProseText::new(&hold.help)))
                .collect(),
        }),
    })
}

fn whole_fault(detail: String) -> RequestFault {
    RequestFault { pointer: "#".to_owned(), detail, ..RequestFault::default() }
}

fn choices(shown: &FormReading) -> Vec<ChoiceText> {
    let mode = |own: ServingMode| shown.mode == own;
    let layout = |own: ServingLayout| shown.layout == own;
    vec![
        ChoiceText {
            name: "mode",
            title: "How to configure it",
            options: vec![
                ("target", "Auto-Optimized: Dynamo's profiler, from a target", mode(ServingMode::Target)),
                ("direct", "Direct: in this form", mode(ServingMode::Direct)),
            ],
        },
        ChoiceText {
            name: "layout",
            title: "How workers serve",
            options: vec![
                ("aggregated", "Each does prefill and decode", layout(ServingLayout::Aggregated)),
                ("disaggregated", "Separate prefill and decode", layout(ServingLayout::Disaggregated)),
            ],
        },
    ]
}

fn field_id(pointer: &str) -> String {
    format!("f{}", pointer.replace('/', "-"))
}

fn input_text(field: &FormField, shown: &FormReading, judged: &JudgedDraft, errors: &[RequestFault]) -> InputText {
    let explained = explain(&field.path().join(".")).ok();
    let value = shown.values.get(&field.pointer);
    let text = value.cloned().unwrap_or_default();
    let own = format!("#{}", field.pointer);
    let is_own = |fault: &&RequestFault| fault.pointer == own || fault.pointer.starts_with(&format!("{own}/"));
    let faults = errors.iter().filter(is_own).map(|fault| match &fault.help {
        Some(help) => format!("{}. {help}", fault.detail),
        None => fault.detail.clone(),
    });
    InputText {
        id: field_id(&field.pointer),
        name: field.pointer.clone(),
        label: field.label,
        effective: effective(field, judged, &text).unwrap_or_default(),
        options: options(field, explained.as_ref().map(|one| one.values.as_slice()).unwrap_or_default(), &text),
        help: explained.map(|one| ProseText::new(&one.description)).unwrap_or_default(),
        is_area: matches!(field.kind, FieldKind::Lines | FieldKind::Variables),
        is_number: field.kind == FieldKind::Number,
        is_hidden: value.is_none(),
        faults: faults.map(|one| ProseText::new(&one)).collect(),
        value: text,
    }
}

fn options(field: &FormField, allowed: &[AllowedValue], value: &str) -> Vec<OptionText> {
    let words: Vec<(String, String)> = match field.kind {
        FieldKind::Choice => allowed.iter().map(|one| (one.value.clone(), one.value.clone())).collect(),
        FieldKind::Flag => vec![("true".to_owned(), "yes".to_owned()), ("false".to_owned(), "no".to_owned())],
        FieldKind::Text | FieldKind::Number | FieldKind::Lines | FieldKind::Variables => return Vec::new(),
    };
    let is_known = value.is_empty() || words.iter().any(|(word, _)| word == value);
    let other = (!is_known).then(|| (value.to_owned(), value.to_owned()));
    let none = (String::new(), "–".to_owned());
    let all = std::iter::once(none).chain(words).chain(other);
    all.map(|(word, text)| OptionText { is_on: word == value, value: word, text }).collect()
}

/// What holds for a field that the file does not set, or sets without effect: where another file does.
fn effective(field: &FormField, judged: &JudgedDraft, value: &str) -> Option<String> {
    let merged = judged.merged.as_ref()?;
    let place = merged.origins.locate_exact(&field.path().join("."))?;
    if place.file == judged.draft.file || place.file.is_empty() {
        return None;
    }
    let model = serde_json::to_value(&merged.model).ok()?;
    let found = model.pointer(&field.pointer)?;
    let one = |value: &Value| value.as_str().map_or_else(|| value_text(value), str::to_owned);
    let text = match found.as_array() {
        Some(items) => items.iter().map(one).collect::<Vec<_>>().join(", "),
        None => one(found),
    };
    (text != value).then(|| format!("{text}, from {}", place.file))
}

fn problem_text(fault: &RequestFault) -> ProblemText {
    let pointer = fault.pointer.trim_start_matches('#');
    let field = FORM_FIELDS
        .iter()
        .find(|field| pointer == field.pointer || pointer.starts_with(&format!("{}/", field.pointer)));
    let place = match (&fault.file, fault.line, fault.column) {
        (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(file), Some(line), None) => format!("{file}:{line}"),
        (Some(file), None, _) => file.clone(),
        (None, ..) => pointer.to_owned(),
    };
    ProblemText {
        href: match field {
            Some(field) => format!("#{}", field_id(&field.pointer)),
            None if pointer == "/file" => "#file".to_owned(),
            None => "#yaml".to_owned(),
        },
        place,
        text: ProseText::new(&fault.detail),
        help: ProseText::new(fault.help.as_deref().unwrap_or_default()),
        allowed: fault.allowed.clone(),
    }
}
