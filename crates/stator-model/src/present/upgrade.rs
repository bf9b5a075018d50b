//! What an upgrade of Dynamo does, as a person reads it.

use super::{TerminalOptions, Tone, escape, findings, pluralize};
use crate::plan::{FileCorrection, ForeseenRestart, GpuTotals, ModelForesight, RefusedUse, UpgradeForesight};
use stator_core::dynamo::upgrade::Certainty;
use std::fmt::Write as _;

/// All of it: the sum, each model, the order, and the patches, unless they are `written` already.
pub fn text(foresight: &UpgradeForesight, is_written: bool, look: &TerminalOptions) -> String {
    let mut out = look.paint(Tone::Strong, &escape::line(&headline(foresight))) + "\n";
    for model in &foresight.models {
        out.push('\n');
        out.push_str(&model_text(model, is_written, look));
    }
    if !foresight.steps.is_empty() {
        let _ = write!(out, "\n{}\n", look.paint(Tone::Strong, "In this order"));
        for (number, step) in foresight.steps.iter().enumerate() {
            let _ = writeln!(out, "  {}. {}", number + 1, escape::line(step));
        }
    }
    if !is_written {
        out.push_str(&patches("Patch", &foresight.corrections, look));
    }
    out.push_str(&patches(&format!("Patch once Dynamo {} runs", foresight.to), &foresight.later_corrections, look));
    out
}

/// The sum in one sentence.
pub fn headline(foresight: &UpgradeForesight) -> String {
    let summary = &foresight.summary;
    let mut parts = Vec::new();
    if summary.refused == 0 {
        parts.push("nothing is refused".to_owned());
    } else {
        let corrected = match summary.corrected {
            0 => "and only you can correct that".to_owned(),
            all if all == summary.refused => "and the patch corrects that".to_owned(),
            some => format!("and the patch corrects {some} of them"),
        };
        let verb = if summary.refused == 1 { "is" } else { "are" };
        parts.push(format!("{} {verb} refused, {corrected}", pluralize(summary.refused, "model", "models")));
    }
    if summary.restarted == 0 {
        parts.push("the operator restarts nothing by itself".to_owned());
    } else {
        let models = pluralize(summary.restarted, "model", "models");
        parts.push(format!(
            "the operator restarts {models} by itself{}",
            gpu_words(summary.restarted_gpus, summary.gpus)
        ));
    }
    let counted = |count: usize, one: &str, many: &str| {
        (count > 0).then(|| format!("{} {}", pluralize(count, "model", "models"), if count == 1 { one } else { many }))
    };
    parts.extend(counted(
        summary.frozen,
        "has fields that can no longer change",
        "have fields that can no longer change",
    ));
    parts.extend(counted(summary.deprecated, "uses what is deprecated", "use what is deprecated"));
    parts.extend(counted(summary.unreadable, "has errors and is not judged", "have errors and are not judged"));
    let UpgradeForesight { environment, from, to, .. } = foresight;
    let models = pluralize(summary.models, "model", "models");
    format!("Dynamo {from} → {to} for {models} of {environment}: {}.", parts.join("; "))
}

/// ` (8 of 96 GPUs, at most 104 meanwhile)`.
fn gpu_words(restarted: u64, all: GpuTotals) -> String {
    if restarted == 0 {
        return String::new();
    }
    let peak = if all.peak > all.before { format!(", at most {} meanwhile", all.peak) } else { String::new() };
    format!(" ({restarted} of {} GPUs{peak})", all.before)
}

fn model_text(model: &ModelForesight, is_written: bool, look: &TerminalOptions) -> String {
    let name = look.paint(Tone::Strong, &escape::line(&model.model));
    let mut out = format!("{name}  {}\n", look.paint(Tone::Faint, &escape::line(&model.source)));
    let mut add = |tone: Tone, word: &str, text: String| {
        let gap = " ".repeat(12_usize.saturating_sub(word.len()));
        let _ = writeln!(out, "  {}{gap}{}", look.paint(tone, word), escape::line(&text));
    };
    for one in &model.refused {
        add(
            Tone::Bad,
            "refused",
            format!("{}: [{}] {}", findings::place(&one.finding.location), one.finding.rule.id, one.finding.message),
        );
        add(Tone::Plain, "", correction_words(one, is_written));
    }
    for one in &model.doubtful {
        add(
            Tone::Caution,
            "differs",
            format!("{}: [{}] {} ({})", findings::place(&one.location), one.rule.id, one.message, one.help),
        );
    }
    for one in &model.restarts {
        add(Tone::Caution, "restarts", restart_words(one));
    }
    for one in &model.frozen {
        add(Tone::Caution, "frozen", format!("{} of {}: {}", one.field, one.object, one.message));
    }
    for one in &model.deprecated {
        let finding = &one.finding;
        add(
            Tone::Faint,
            "deprecated",
            format!("{}: {} ({})", findings::place(&finding.location), finding.message, finding.help),
        );
    }
    if model.restarted_gpus > 0 {
        let GpuTotals { before, peak, .. } = model.gpus;
        add(Tone::Faint, "GPUs", format!("{} of {before} restart, at most {peak} meanwhile", model.restarted_gpus));
    }
    out
}

fn correction_words(one: &RefusedUse, is_written: bool) -> String {
    let already = if one.already { "; the release that runs refuses it as well" } else { "" };
    match &one.correction {
        Some(words) if one.later => format!("in the patch for then: {words}{already}"),
        Some(words) if is_written => format!("written: {words}{already}"),
        Some(words) => format!("in the patch: {words}{already}"),
        None => format!("by hand: {}{already}", one.finding.help),
    }
}

fn restart_words(one: &ForeseenRestart) -> String {
    let sure = match one.certainty {
        Certainty::Stated => "",
        Certainty::Likely => "likely, ",
    };
    format!(
        "{} of {} ({sure}{}, since {}): {}",
        one.components.join(", "),
        one.object,
        one.disruption,
        one.since,
        one.reason.trim_end_matches('.')
    )
}

fn patches(title: &str, files: &[FileCorrection], look: &TerminalOptions) -> String {
    if files.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", look.paint(Tone::Strong, title));
    for file in files {
        out.push_str(&escape::lines(&file.patch));
    }
    out
}

/// The sum, the models that it concerns, and the order, a sentence each: for a comment, a page, or a plan on a terminal.
pub fn sentences(foresight: &UpgradeForesight) -> Vec<String> {
    const MAX_MODELS: usize = 20;
    let mut sentences = vec![headline(foresight)];
    for model in foresight.models.iter().take(MAX_MODELS) {
        let refused = model
            .refused
            .iter()
            .map(|one| format!("refused at {}: {}", findings::place(&one.finding.location), one.finding.message));
        let restarts = model.restarts.iter().map(|one| format!("restarts {}", restart_words(one)));
        let frozen = model.frozen.iter().map(|one| format!("frozen: {} of {}", one.field, one.object));
        let deprecated = model
            .deprecated
            .iter()
            .map(|one| format!("deprecated at {}: {}", findings::place(&one.finding.location), one.finding.message));
        let parts: Vec<String> = refused.chain(restarts).chain(frozen).chain(deprecated).collect();
        if !parts.is_empty() {
            sentences.push(format!("{}: {}.", model.model, parts.join("; ")));
        }
    }
    let more = foresight.models.len().saturating_sub(MAX_MODELS);
    if more > 0 {
        sentences.push(format!("{more} more: `stator check --dynamo {}` shows all.", foresight.to));
    }
    sentences.extend(foresight.steps.iter().enumerate().map(|(number, step)| format!("Step {}: {step}", number + 1)));
    sentences
}
