//! What an upgrade of Dynamo does, as a person reads it.

use super::{TerminalOptions, Tone, escape, findings};
use crate::plan::GpuTotals as Gpus;
use crate::upgrade::{FileCorrection, ForeseenRestart, ModelForesight, RefusedUse, UpgradeForesight};
use stator_core::dynamo::upgrade::Certainty;
use std::fmt::Write as _;

/// All of it: the sum, each model, the order, and the patches, unless they are `written` already.
pub fn text(foresight: &UpgradeForesight, is_written: bool, look: &TerminalOptions) -> String {
    let mut out = look.paint(Tone::Strong, &escape::line(&foresight.headline())) + "\n";
    for model in &foresight.models {
        out.push('\n');
        out.push_str(&model_text(model, look));
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

fn model_text(model: &ModelForesight, look: &TerminalOptions) -> String {
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
        add(Tone::Plain, "", correction_words(one));
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
        let Gpus { before, peak, .. } = model.gpus;
        add(Tone::Faint, "GPUs", format!("{} of {before} restart, at most {peak} meanwhile", model.restarted_gpus));
    }
    out
}

fn correction_words(one: &RefusedUse) -> String {
    let already = if one.already { "; the release that runs refuses it as well" } else { "" };
    match &one.correction {
        Some(words) if one.later => format!("in the patch for then: {words}{already}"),
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
        one.reason
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
    let mut sentences = vec![foresight.headline()];
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
