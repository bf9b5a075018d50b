//! The form, as a browser without a script fills it in.

use super::drafts::apply_patch;
use super::scene::{Answer, Pages};
use super::{bench, settled, sync};

const EDIT: &str = "/models/models/gamma/edit";

/// Undoes what a page does to text.
fn unescape(text: &str) -> String {
    let text = text.replace("&#34;", "\"").replace("&#39;", "'").replace("&#60;", "<").replace("&#62;", ">");
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#38;", "&").replace("&amp;", "&")
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(unescape(rest.split('"').next()?))
}

/// What a browser would send of a page, whose fields nobody touched.
pub fn filled(page: &Answer) -> Vec<(String, String)> {
    let form = page.body.split("<form id=\"model-form\"").nth(1).unwrap_or_else(|| panic!("{page:?}"));
    let form = form.split("</form>").next().unwrap();
    let mut fields = Vec::new();
    for part in form.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        let Some(name) = attribute(tag, "name").filter(|_| !tag.contains(" disabled")) else {
            if tag.starts_with("option")
                && tag.contains(" selected")
                && let Some((_, value)) = fields.last_mut()
            {
                *value = attribute(tag, "value").unwrap();
            }
            continue;
        };
        let value = if tag.starts_with("textarea") {
            // A browser drops the first end of line.
            unescape(text.strip_prefix('\n').unwrap())
        } else if tag.starts_with("select") {
            String::new()
        } else if tag.contains("type=\"radio\"") {
            if !tag.contains(" checked") {
                continue;
            }
            attribute(tag, "value").unwrap()
        } else if tag.starts_with("button") {
            continue;
        } else {
            attribute(tag, "value").unwrap_or_default()
        };
        fields.push((name, value));
    }
    fields
}

pub fn with<'a>(fields: &'a [(String, String)], touched: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let kept = kept.filter(|(name, _)| !touched.iter().any(|(own, _)| own == name));
    kept.chain(touched.iter().copied()).collect()
}

pub fn value<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn a_model_is_changed_by_its_form_without_a_script() {
    let bench = bench();
    let file = "models/gamma/model.yaml";
    bench.replace(
        file,
        "      replicas: 2\n",
        "      replicas: 2   # since March\n      resources: {requests: {cpu: 8}}\n",
    );
    let before = bench.read(file);
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let opened = pages.get(EDIT);
    assert_eq!(opened.status, 200, "{opened:?}");
    let fields = filled(&opened);
    assert_eq!((value(&fields, "base"), value(&fields, "yaml")), (before.as_str(), before.as_str()));
    assert_eq!((value(&fields, "/spec/engine"), value(&fields, "/spec/serving/worker/replicas")), ("vllm", "2"));
    assert!(
        opened.body.contains("1 field only in the YAML") && opened.body.contains("/spec/serving/worker/resources"),
        "{opened:?}"
    );
    assert!(
        opened.body.contains("Nothing would change in the cluster.") && opened.body.contains("No changes."),
        "{opened:?}"
    );

    // Untouched, it gives back what it was given.
    let same = pages.submit(EDIT, &with(&fields, &[]));
    assert_eq!((same.status, filled(&same)), (200, fields.clone()), "{same:?}");

    let touched = [("/spec/serving/worker/replicas", "4"), ("/spec/servedName", "big: model")];
    let shown = pages.submit(EDIT, &with(&fields, &touched));
    assert_eq!(shown.status, 200, "{shown:?}");
    for words in ["1 object would change.", "2 now, 4 after", "$5.00/h now, $10.00/h after (+$5.00/h)"] {
        assert!(shown.body.contains(words), "{words}: {shown:?}");
    }
    assert_eq!(bench.read(file), before, "nothing is written");
    let wanted = before.replace("replicas: 2   # since", "replicas: 4   # since").replacen(
        "  engine:",
        "  servedName: \"big: model\"\n  engine:",
        1,
    );
    assert_eq!(value(&filled(&shown), "yaml"), wanted);

    // What was typed into the YAML is there as well.
    let typed = before.replace("metadata:", "# typed\nmetadata:");
    let patch = pages.submit(EDIT, &with(&fields, &[("yaml", &typed), touched[0], touched[1], ("action", "patch")]));
    assert_eq!((patch.status, patch.header("content-type")), (200, "text/x-diff; charset=utf-8"), "{patch:?}");
    assert_eq!(patch.header("content-disposition"), "attachment; filename=\"model.patch\"");
    apply_patch(&bench, &patch.body);
    assert_eq!(bench.read(file), wanted.replace("metadata:", "# typed\nmetadata:"));

    // The file is another one now.
    pages.shows(EDIT, "the newer file", |answer| answer.body.contains("# typed"));
    let stale = pages.submit(EDIT, &with(&fields, &[("/spec/serving/worker/replicas", "1"), ("action", "patch")]));
    assert_eq!(stale.status, 409, "{stale:?}");
    assert!(stale.body.contains("was changed by both: it is <code>4</code> in git now"), "{stale:?}");
    let merged = filled(&stale);
    assert!(value(&merged, "yaml").contains("# typed") && value(&merged, "yaml").contains("replicas: 1"), "{merged:?}");
    let patch = pages.submit(EDIT, &with(&merged, &[("action", "patch")]));
    assert!(patch.status == 200 && patch.body.contains("-      replicas: 4"), "{patch:?}");
}

#[test]
fn errors_stand_at_their_fields() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let fields = filled(&pages.get(EDIT));
    let evil = "\"><script>alert(1)</script>";
    let refused = pages.submit(EDIT, &with(&fields, &[("/spec/serving/worker/gpus", "many"), ("/spec/runtime", evil)]));
    assert_eq!(refused.status, 422, "{refused:?}");
    let page = &refused.body;
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(page.contains("There are 2 errors") && page.contains("autofocus"), "{page}");
    for id in ["f-spec-serving-worker-gpus", "f-spec-runtime"] {
        let tag = page.split('<').find(|tag| tag.contains(&format!("id=\"{id}\""))).unwrap();
        assert!(tag.contains("aria-invalid=\"true\"") && tag.contains(&format!("{id}-error")), "{tag}");
        assert!(page.contains(&format!("href=\"#{id}\"")) && page.contains(&format!("for=\"{id}\"")), "{page}");
    }
    // Nothing that was typed is lost.
    let again = filled(&refused);
    assert_eq!((value(&again, "/spec/serving/worker/gpus"), value(&again, "/spec/runtime")), ("many", evil));
    let no_patch = pages.submit(EDIT, &with(&again, &[("action", "patch")]));
    assert_eq!((no_patch.status, no_patch.header("content-type")), (422, "text/html; charset=utf-8"));
    let typed = bench.read("models/gamma/model.yaml").replace("worker:", "wroker:");
    let typed = pages.submit(EDIT, &with(&fields, &[("yaml", &typed)]));
    assert!(typed.status == 422 && typed.body.contains("Did you mean <code>worker</code>"), "{typed:?}");
    let broken = pages.submit(EDIT, &with(&fields, &[("yaml", "a: ["), ("/spec/servedName", "kept")]));
    assert_eq!(
        (broken.status, value(&filled(&broken), "yaml"), value(&filled(&broken), "/spec/servedName")),
        (422, "a: [", "kept")
    );
    // Every field has its label, and what describes it is there.
    let page = pages.get(EDIT).body;
    for tag in page.split('<').filter(|tag| tag.contains(" aria-describedby=\"")) {
        assert!(page.contains(&format!("for=\"{}\"", attribute(tag, "id").unwrap())), "{tag}");
        for id in attribute(tag, "aria-describedby").unwrap().split(' ').filter(|id| !id.ends_with("-now")) {
            assert!(page.contains(&format!("id=\"{id}\"")), "{tag}: {id}");
        }
    }
}

#[test]
fn replicas_that_somebody_else_decides_on_are_refused() {
    let bench = bench();
    bench.replace(
        "models/alpha/model.yaml",
        "      replicas: 2\n",
        "      replicas: 2\n      scaling: {min: 1, max: 4}\n",
    );
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let edit = "/models/models/alpha/edit";
    let fields = filled(&pages.get(edit));
    let refused = pages.submit(edit, &with(&fields, &[("/spec/serving/worker/replicas", "3")]));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("a planner or a scaling adapter sets the replicas"), "{refused:?}");
    let text = bench.read("models/alpha/model.yaml").replace("replicas: 2", "replicas: 3");
    let refused = pages.post("/api/v1/plan", "application/yaml", &text);
    assert_eq!((refused.status, refused.json()["type"].as_str()), (409, Some("/problems/replicas-not-owned")));
    assert_eq!(pages.submit(edit, &with(&fields, &[("/spec/serving/worker/scaling/max", "8")])).status, 200);
}

#[test]
fn a_new_model_comes_from_a_form() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let opened = pages.get("/new");
    assert_eq!(opened.status, 200, "{opened:?}");
    let fields = filled(&opened);
    let touched = [("/metadata/name", "delta"), ("/spec/engine", "mocker"), ("/spec/runtime", "1.2.0")];
    let shown = pages.submit("/new", &with(&fields, &touched));
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(shown.body.contains("models/delta/model.yaml") && shown.body.contains("create"), "{shown:?}");
    let again = filled(&shown);
    let patch = pages.submit("/new", &with(&again, &[("layout", "disaggregated"), ("action", "patch")]));
    assert_eq!(patch.header("content-type"), "text/x-diff; charset=utf-8", "{patch:?}");
    apply_patch(&bench, &patch.body);
    let text = bench.read("models/delta/model.yaml");
    assert!(text.contains("prefill:") && text.contains("decode:") && !text.contains("worker:"), "{text}");
    let taken = pages.submit("/new", &with(&fields, &[("file", "models/alpha/model.yaml"), touched[0], touched[1]]));
    assert!(taken.status == 422 && taken.body.contains("already has a model"), "{taken:?}");
    assert_eq!(pages.get("/new?source=other").status, 400);
    assert_eq!(pages.get("/models/models/nobody/edit").status, 404);
    // Another source's field, or one that no form has, changes nothing.
    assert_eq!(pages.submit("/new", &with(&fields, &[("source", "other")])).status, 400);
}

/// Nothing typed is lost: not by a fault in one field, not by a wrong path, not by a file that is gone.
#[test]
fn what_was_typed_stays_whatever_else_is_wrong() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let fields = filled(&pages.get(EDIT));
    let replicas = "/spec/serving/worker/replicas";
    let refused = pages.submit(EDIT, &with(&fields, &[("/metadata/labels", "team=a\nfoo"), (replicas, "7")]));
    assert_eq!(refused.status, 422, "{refused:?}");
    let again = filled(&refused);
    assert_eq!((value(&again, replicas), value(&again, "/metadata/labels")), ("7", "team=a\nfoo"));
    let patch = pages.submit(EDIT, &with(&again, &[("/metadata/labels", "team=a"), ("action", "patch")]));
    assert!(patch.body.contains("+      replicas: 7") && patch.body.contains("+    team: a"), "{patch:?}");

    let new = filled(&pages.get("/new"));
    let refused = pages.submit("/new", &with(&new, &[("/metadata/name", "delta"), ("file", "../model.yaml")]));
    assert_eq!(refused.status, 422, "{refused:?}");
    let again = filled(&refused);
    assert_eq!((value(&again, "/metadata/name"), value(&again, "file")), ("delta", "../model.yaml"));
    assert!(refused.body.contains("href=\"#file\""), "{refused:?}");

    fs_err::remove_dir_all(bench.root().join("models/gamma")).unwrap();
    pages.shows("/changes", "that it goes", |answer| answer.body.contains("models/gamma"));
    let gone = pages.submit(EDIT, &with(&fields, &[(replicas, "9")]));
    assert_eq!(gone.status, 409, "{gone:?}");
    assert!(
        gone.body.contains("is not in git any more") && value(&filled(&gone), "yaml").contains("replicas: 9"),
        "{gone:?}"
    );
}
