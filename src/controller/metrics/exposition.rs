//! The two text forms: OpenMetrics for whoever asks for it, as Prometheus does, and Prometheus' own for everybody else.

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text form 0.0.4.
    Prometheus,
}

impl ExpositionFormat {
    /// What an `Accept` header asks for.
    pub fn from_accept_header(header: &str) -> Self {
        if header.to_ascii_lowercase().contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// A text in this form, from one in the form of OpenMetrics. They differ in the names of counters in front of their
    /// samples, and in the end.
    pub(super) fn convert(self, text: String) -> String {
        if self == Self::OpenMetrics {
            return text;
        }
        let mut plain = String::with_capacity(text.len());
        // The help of a family stands before its type, and does not say yet whether it is a counter.
        let mut help = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                help = rest.split_once(' ');
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let Some((name, kind)) = rest.split_once(' ') else { continue };
                let suffix = if kind == "counter" { "_total" } else { "" };
                if let Some((_, meaning)) = help.take() {
                    plain.extend(["# HELP ", name, suffix, " ", meaning, "\n"]);
                }
                plain.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
            } else if !line.starts_with('#') {
                plain.extend([line, "\n"]);
            }
        }
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_as_prometheus_names_them() {
        let text = "# HELP a_looks Looks at it.\n# TYPE a_looks counter\na_looks_total{b=\"# c\"} 1\n# HELP d D.\n# TYPE d gauge\nd 2\n# EOF\n";
        assert_eq!(
            ExpositionFormat::from_accept_header("application/openmetrics-text;version=1.0.0,*/*;q=0.1")
                .convert(text.to_owned()),
            text
        );
        insta::assert_snapshot!(ExpositionFormat::from_accept_header("*/*").convert(text.to_owned()), @r##"
        # HELP a_looks_total Looks at it.
        # TYPE a_looks_total counter
        a_looks_total{b="# c"} 1
        # HELP d D.
        # TYPE d gauge
        d 2
        "##);
    }
}
