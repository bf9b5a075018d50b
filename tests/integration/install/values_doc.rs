//! The table of values in `docs/install.md` is that of `values.yaml`. `STATOR_BLESS=1` writes it.

use super::{at, chart};
use serde_json::Value;

/// A row for every value that has a comment `# --`: its path, its default, and what it says.
fn rows() -> Vec<(String, String, String)> {
    let text = fs_err::read_to_string(chart().join("values.yaml")).unwrap();
    let defaults: Value = serde_saphyr::from_str(&text).unwrap();
    let (mut rows, mut path, mut said) = (Vec::new(), Vec::<(usize, String)>::new(), None::<String>);
    for line in text.lines() {
        let content = line.trim_start();
        let depth = line.len() - content.len();
        if let Some(first) = content.strip_prefix("# -- ") {
            said = Some(first.to_owned());
        } else if let (Some(more), Some(comment)) = (content.strip_prefix("# "), &mut said) {
            comment.push_str(&format!(" {more}"));
        } else if let Some((key, _)) = content.split_once(':').filter(|_| !content.starts_with('#')) {
            path.retain(|(own, _)| *own < depth);
            path.push((depth, key.to_owned()));
            if let Some(comment) = said.take() {
                let keys: Vec<&str> = path.iter().map(|(_, key)| key.as_str()).collect();
                let value = defaults.pointer(&format!("/{}", keys.join("/"))).unwrap_or_else(|| panic!("{keys:?}"));
                rows.push((keys.join("."), value.to_string(), comment));
            }
        }
    }
    rows
}

#[test]
fn the_page_has_the_values_of_the_chart() {
    let rows = rows();
    let mut table = "| Value | Default | |\n|-|-|-|\n".to_owned();
    for (path, default, said) in &rows {
        table.push_str(&format!("| `{path}` | `{default}` | {said} |\n"));
    }
    let page = fs_err::read_to_string(at("docs/install.md")).unwrap();
    let (before, rest) = page.split_once("<!-- values -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /values -->\n").unwrap();
    let wanted = format!("{before}<!-- values -->\n{table}<!-- /values -->\n{after}");
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs_err::write(at("docs/install.md"), &wanted).unwrap();
    }
    let now = fs_err::read_to_string(at("docs/install.md")).unwrap();
    assert!(now == wanted, "`STATOR_BLESS=1 cargo test --test integration install::` writes the table anew");
    // Each value is explained, lists and maps as a whole.
    assert!(rows.len() > 50, "{rows:?}");
}
