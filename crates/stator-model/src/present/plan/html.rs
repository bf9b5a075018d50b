//! The plan as one HTML file that needs nothing else: no script, no style sheet, no picture from elsewhere.

use super::{
    action_symbol, approval_summary, base_label, by_risk, change_gpus, format_value, gpu_summary, plan_cost,
    short_revision,
};
use crate::plan::{Action, Change, Plan};
use crate::present::{diff, escape, findings, upgrade};
use std::fmt::Write as _;

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--good:#1a7f37;--bad:#cf222e;--mild:#9a6700}\
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);\
vertical-align:top}td.number{text-align:right}pre,code{font:13px/1.45 ui-monospace,monospace}\
pre{overflow-x:auto;padding:.6rem;border:1px solid var(--line);border-radius:4px}\
.create,.adopt,ins{color:var(--good)}.delete,.replace,.blocked,.error,del{color:var(--bad)}.update,.warning{color:var(--mild)}\
ins,del{text-decoration:none}details{margin:.6rem 0}summary{cursor:pointer}";

/// The whole plan as a page. Nothing is left out, however long it becomes.
pub fn html(plan: &Plan) -> String {
    let environment = escape::markup(&escape::line(&plan.environment));
    let repository = escape::markup(&escape::line(&plan.repository));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>stator plan: {repository} / {environment}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n\
         <h1>{repository} / {environment}</h1>\n<p>{} against {}</p>\n",
        if plan.revision.is_empty() { "work tree".to_owned() } else { escape::markup(&short_revision(&plan.revision)) },
        escape::markup(&base_label(plan))
    );
    let _ = writeln!(out, "<p>{}</p>", escape::markup(super::totals_text(plan).trim_end()).replace('\n', "<br>"));
    let _ = writeln!(out, "{}", summary_html(plan));
    for hold in plan.holds.iter().filter(|hold| !hold.allowed) {
        let _ = writeln!(
            out,
            "<p class=\"error\"><strong>Held back: {}.</strong> {} {}</p>",
            hold.kind.as_str(),
            escape::markup(&hold.message),
            escape::markup(&hold.help)
        );
    }
    if !plan.findings.is_empty() {
        out.push_str("<h2>Findings</h2>\n<ul>\n");
        for finding in &plan.findings {
            let _ = writeln!(
                out,
                "<li class=\"{}\"><code>{}</code> {}: {} {}</li>",
                finding.severity,
                escape::markup(&findings::place(&finding.location)),
                escape::markup(finding.rule.id),
                escape::markup(&finding.message),
                escape::markup(&finding.help)
            );
        }
        out.push_str("</ul>\n");
    }
    if let Some(foresight) = &plan.upgrade {
        out.push_str("<h2>Dynamo</h2>\n<ul>\n");
        for sentence in upgrade::sentences(foresight) {
            let _ = writeln!(out, "<li>{}</li>", escape::markup(&escape::line(&sentence)));
        }
        out.push_str("</ul>\n");
    }
    let changes = by_risk(plan);
    if !changes.is_empty() {
        out.push_str("<h2>Changes</h2>\n<table>\n<thead><tr><th></th><th>Model</th><th>Object</th><th>GPUs</th><th>Disruption</th></tr></thead>\n<tbody>\n");
        for change in &changes {
            out.push_str(&change_row(change));
        }
        out.push_str("</tbody>\n</table>\n");
        for change in &changes {
            out.push_str(&change_details(change));
        }
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn summary_html(plan: &Plan) -> String {
    let used = gpu_summary(plan);
    let used = if used.is_empty() { "no GPUs".to_owned() } else { used };
    let approved = approval_summary(plan).map(|totals| format!("if approved: {totals}"));
    format!(
        "<p><strong>{}</strong> digest <code>{}</code></p>",
        escape::markup(&[Some(used), plan_cost(plan), approved].into_iter().flatten().collect::<Vec<_>>().join(" · ")),
        escape::markup(&plan.digest)
    )
}

fn change_row(change: &Change) -> String {
    format!(
        "<tr><td class=\"{action}\">{} {action}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escape::markup(action_symbol(change.action)),
        escape::markup(&escape::line(&change.model)),
        escape::markup(&escape::line(&change.object.to_string())),
        escape::markup(&change_gpus(change)),
        change.disruption.as_str(),
        action = change.action.as_str(),
    )
}

fn change_details(change: &Change) -> String {
    let open = match change.action {
        Action::Update | Action::Replace | Action::Blocked => " open",
        Action::Create | Action::Delete | Action::Deleting | Action::Adopt | Action::LeftBehind | Action::Keep => "",
    };
    let mut out = format!(
        "<details{open}><summary><span class=\"{}\">{}</span> {} <code>{}</code></summary>\n",
        change.action.as_str(),
        escape::markup(action_symbol(change.action)),
        escape::markup(&escape::line(&change.object.to_string())),
        escape::markup(&escape::line(&change.source)),
    );
    for reason in &change.reasons {
        let _ = writeln!(out, "<p>{}</p>", escape::markup(&reason.to_string()));
    }
    if !change.fields.is_empty() {
        out.push_str(
            "<table>\n<thead><tr><th>Field</th><th>Old</th><th>New</th><th>Owner</th></tr></thead>\n<tbody>\n",
        );
        for field in &change.fields {
            let _ = writeln!(
                out,
                "<tr><td><code>{}</code></td><td><del>{}</del></td><td><ins>{}</ins></td><td>{}</td></tr>",
                escape::markup(&escape::line(&field.path.to_string())),
                escape::markup(&format_value(&field.old)),
                escape::markup(&format_value(&field.new)),
                escape::markup(&escape::line(&field.owner)),
            );
        }
        out.push_str("</tbody>\n</table>\n");
    }
    let hunks = diff::hunks(change, 3);
    if !hunks.is_empty() {
        out.push_str("<pre>");
        for line in hunks.lines() {
            let text = escape::markup(line);
            let _ = match line.as_bytes().first() {
                Some(b'+') => writeln!(out, "<ins>{text}</ins>"),
                Some(b'-') => writeln!(out, "<del>{text}</del>"),
                Some(_) | None => writeln!(out, "{text}"),
            };
        }
        out.push_str("</pre>\n");
    }
    out.push_str("</details>\n");
    out
}
