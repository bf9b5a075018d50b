//! How many findings are reported one by one: somebody who writes files by machine makes hundreds of thousands, and nobody reads
//! more than a screen of them. How many more there are is a finding of its own, so every output says it.

use super::{Finding, Location, Severity, sort_and_dedup};

/// The most findings of one file that are reported one by one.
pub const MAX_FILE_FINDINGS: usize = 100;
/// The most findings of one commit that are reported one by one.
pub const MAX_FINDINGS: usize = 1000;

crate::rules! {
    LEFT_OUT = "findings/left-out", "At most 100 findings per file and 1000 per commit are listed, errors first.";
}

impl<P> Finding<P> {
    /// Stands for findings that are not reported one by one, at least one of them.
    fn left_out(left_out: LeftOut, place: P) -> Self {
        let LeftOut { count, severity } = left_out;
        let message = if count == 1 {
            "1 more finding is left out".to_owned()
        } else {
            format!("{count} more findings are left out")
        };
        let help = "Fix the listed findings first, then check again.";
        Self { severity, stands_for: count, ..Self::error(LEFT_OUT, place, message, help) }
    }
}

/// What is left out.
#[derive(Clone, Copy, Debug)]
struct LeftOut {
    count: usize,
    severity: Severity,
}

impl LeftOut {
    fn add<P>(sum: Option<Self>, finding: &Finding<P>) -> Option<Self> {
        let so_far = sum.unwrap_or(Self { count: 0, severity: finding.severity });
        Some(Self {
            count: so_far.count.saturating_add(finding.stands_for),
            severity: so_far.severity.min(finding.severity),
        })
    }
}

/// Leaves the worst of more findings than `most`, and one that says how many there are beside them. A list that was cut
/// already is cut again to the same.
pub fn limit_findings(findings: &mut Vec<Finding>, most: usize, place: &Location) {
    if findings.len() <= most {
        return;
    }
    let (mut reported, summaries): (Vec<Finding>, Vec<Finding>) =
        std::mem::take(findings).into_iter().partition(|one| one.rule != LEFT_OUT);
    reported.sort_by_key(|one| one.severity);
    let rest = reported.split_off(most.min(reported.len()));
    let left_out = summaries.iter().chain(&rest).fold(None, LeftOut::add);
    reported.extend(left_out.map(|left_out| Finding::left_out(left_out, place.clone())));
    sort_and_dedup(&mut reported);
    *findings = reported;
}

/// Findings of one file while they are made: never more than [`MAX_FILE_FINDINGS`], but for the first of each rule.
#[derive(Clone, Debug)]
pub struct FileFindings<P = Location> {
    reported: Vec<Finding<P>>,
    left_out: Option<LeftOut>,
}

impl<P> Default for FileFindings<P> {
    fn default() -> Self {
        Self { reported: Vec::new(), left_out: None }
    }
}

impl<P> FileFindings<P> {
    /// Adds a finding.
    pub fn push(&mut self, finding: Finding<P>) {
        let is_new = || self.reported.iter().all(|one| (one.rule, one.severity) != (finding.rule, finding.severity));
        if self.reported.len() < MAX_FILE_FINDINGS || is_new() {
            self.reported.push(finding);
        } else {
            self.left_out = LeftOut::add(self.left_out, &finding);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.reported.is_empty()
    }

    /// All that are reported; `place` is the file's.
    pub fn finish(mut self, place: P) -> Vec<Finding<P>> {
        self.reported.extend(self.left_out.map(|left_out| Finding::left_out(left_out, place)));
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Rule;

    const RULES: [Rule; 2] = [Rule { id: "a", summary: "" }, Rule { id: "b", summary: "" }];

    fn finding(line: u32, is_error: bool) -> Finding {
        let place = Location { line, ..Location::file("model.yaml") };
        let made = if is_error { Finding::error } else { Finding::warning };
        made(RULES[usize::from(is_error)], place, format!("{line}"), "")
    }

    /// Row S1 of the review: findings had no limit.
    #[test]
    fn a_list_that_is_too_long_keeps_the_worst_and_counts_the_rest() {
        let mut findings: Vec<Finding> = (0..5000).map(|line| finding(line, line >= 4000)).collect();
        limit_findings(&mut findings, MAX_FINDINGS, &Location::default());
        assert_eq!(findings.len(), 1001);
        assert_eq!(findings.iter().filter(|one| one.is_error()).count(), 1000);
        assert_eq!(findings[0].message, "4000 more findings are left out");
        assert_eq!(findings[0].severity, Severity::Warning, "no error is left out");
        let once = findings.clone();
        limit_findings(&mut findings, MAX_FINDINGS, &Location::default());
        assert_eq!(findings, once, "cut twice is cut once");
        findings.extend((9000..9010).map(|line| finding(line, true)));
        limit_findings(&mut findings, MAX_FINDINGS, &Location::default());
        assert_eq!((findings.len(), &*findings[0].message), (1001, "4010 more findings are left out"));
        assert!(findings[0].is_error(), "some that are left out are errors");
    }

    /// Row S1 of the review: a file of aliases made 200,000 findings.
    #[test]
    fn a_file_tells_a_hundred_and_the_first_of_each_rule() {
        let mut made = FileFindings::default();
        (0..200_000).for_each(|line| made.push(finding(line, false)));
        (0..200_000).for_each(|line| made.push(finding(line, true)));
        let findings = made.finish(Location::file("model.yaml"));
        assert_eq!(findings.len(), 102);
        assert_eq!(findings.last().unwrap().message, "399899 more findings are left out");
        assert!(findings.iter().any(|one| one.rule == RULES[1] && one.is_error()));
    }
}
