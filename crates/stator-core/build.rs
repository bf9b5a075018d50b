//! Bundles the CRD schemas in `crds/` into the program: one compact JSON file for each served version, without prose
//! and compressed, as they are a fortieth of the program otherwise. A
//! definition of Dynamo stands in a folder that is named by its release. Makes the table of forms of tokens, too.

#![allow(clippy::disallowed_methods, reason = "the crate is pure, and its build script reads files")]

use serde_json::{Map, Value, json};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../crds");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../crds");
    let mut files = Vec::new();
    find_yaml(&root, &mut files)?;
    files.sort();

    let mut table = String::new();
    let mut count = 0_usize;
    for file in files {
        println!("cargo:rerun-if-changed={}", file.display());
        let text = fs_err::read_to_string(&file)?;
        let crd: Value = serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let text_at = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let release = file.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        let release = if release.starts_with(|first: char| first.is_ascii_digit()) { release } else { "" };
        let (group, kind) = (text_at("/spec/group"), text_at("/spec/names/kind"));
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for version in versions.iter().filter(|version| version["served"] == Value::Bool(true)) {
            let name = version["name"].as_str().unwrap_or_default();
            let api_version = if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
            let compact = json!({
                "status": version.pointer("/subresources/status").is_some(),
                "schema": without_prose(&version["schema"]["openAPIV3Schema"]),
            });
            let target = out.join(format!("schema-{count}.json.lz4"));
            fs_err::write(&target, lz4_flex::compress_prepend_size(&serde_json::to_vec(&compact)?))?;
            writeln!(
                table,
                "    Bundled::new({release:?}, {api_version:?}, {kind:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), \"/schema-{count}.json.lz4\"))),"
            )?;
            count += 1;
        }
    }
    fs_err::write(out.join("schemas.rs"), format!("static BUNDLED: [Bundled; {count}] = [\n{table}];\n"))?;
    write_token_forms(&out)
}

/// The table of forms of tokens as Rust: nothing is read when the program starts.
fn write_token_forms(out: &Path) -> Result<(), Box<dyn Error>> {
    let source = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("src/mask/token_forms.yaml");
    println!("cargo:rerun-if-changed={}", source.display());
    let forms: Vec<Map<String, Value>> = serde_saphyr::from_str(&fs_err::read_to_string(source)?)?;
    let (mut table, mut examples) = (String::new(), String::new());
    for form in &forms {
        let text = |field: &str| form.get(field).and_then(Value::as_str).ok_or(format!("a form without `{field}`"));
        let is_set = |field: &str| form.get(field) == Some(&Value::Bool(true));
        let keywords: Vec<String> = serde_json::from_value(form.get("keywords").cloned().unwrap_or_default())?;
        let pieces: Vec<Vec<String>> = serde_json::from_value(form.get("examples").cloned().unwrap_or_default())?;
        let least = form.get("least").and_then(Value::as_u64).ok_or("a form without `least`")?;
        writeln!(
            table,
            "    TokenForm {{ what: {:?}, keywords: &{keywords:?}, least: {least}, starts_word: {}, is_mixed: {}, form: {:?}, compiled: OnceLock::new() }},",
            text("what")?,
            is_set("starts_word"),
            is_set("mixed"),
            text("form")?,
        )?;
        writeln!(examples, "    ({:?}, &{:?}),", text("id")?, pieces)?;
    }
    let count = forms.len();
    // An example is a list of pieces, of which a git host recognizes none.
    let rust = format!(
        "static TOKEN_FORMS: [TokenForm; {count}] = [\n{table}];\n#[cfg(test)]\npub(super) static EXAMPLES: [(&str, &[&[&str]]); {count}] = [\n{examples}];\n"
    );
    fs_err::write(out.join("token_forms.rs"), rust.replace("[[\"", "[&[\"").replace("], [\"", "], &[\""))?;
    Ok(())
}

/// Every YAML file below a folder.
fn find_yaml(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_yaml(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
    Ok(())
}

/// A schema without its descriptions, which are two thirds of its size. A property may itself be called
/// `description`, so the walk follows the schema's own structure.
fn without_prose(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut kept = Map::new();
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            ("description" | "title" | "example" | "externalDocs", _) => continue,
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, property)| (name.clone(), without_prose(property))).collect()
            }
            ("items" | "additionalProperties" | "not", value) => without_prose(value),
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => list.iter().map(without_prose).collect(),
            (_, value) => value.clone(),
        };
        kept.insert(name.clone(), value);
    }
    Value::Object(kept)
}
