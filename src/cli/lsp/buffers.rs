//! What is open in the editor, as it is typed.

use lsp_types::{TextDocumentContentChangeEvent, TextDocumentItem, Uri, VersionedTextDocumentIdentifier};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use url::Url;

/// A file that is open.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// As the editor calls it.
    pub uri: Uri,
    /// What it holds, saved or not.
    pub text: Arc<str>,
    /// The editor's count of changes.
    pub version: i32,
}

/// The files that are open, by their paths. What is no file of this machine is not looked at.
#[derive(Clone, Debug, Default)]
pub struct OpenBuffers(BTreeMap<PathBuf, Buffer>);

impl OpenBuffers {
    /// The editor opens a file.
    pub fn open(&mut self, opened: TextDocumentItem) {
        if let Some(path) = path_of(&opened.uri) {
            let buffer = Buffer { uri: opened.uri, text: opened.text.into(), version: opened.version };
            self.0.insert(path, buffer);
        }
    }

    /// What it holds is another text now.
    pub fn change(&mut self, changed: &VersionedTextDocumentIdentifier, changes: Vec<TextDocumentContentChangeEvent>) {
        let Some(buffer) = path_of(&changed.uri).and_then(|path| self.0.get_mut(&path)) else { return };
        buffer.version = changed.version;
        // Changes are whole texts, as that is what is asked for.
        if let Some(last) = changes.into_iter().last() {
            buffer.text = last.text.into();
        }
    }

    /// The editor closes a file: what the disk has of it counts again.
    pub fn close(&mut self, uri: &Uri) {
        if let Some(path) = path_of(uri) {
            self.0.remove(&path);
        }
    }

    /// A file, by what the editor calls it.
    pub fn get(&self, uri: &Uri) -> Option<(PathBuf, &Buffer)> {
        let path = path_of(uri)?;
        let buffer = self.0.get(&path)?;
        Some((path, buffer))
    }

    /// A file, by its path.
    pub fn at(&self, path: &Path) -> Option<&Buffer> {
        self.0.get(path)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Buffer)> {
        self.0.iter()
    }
}

/// The path of a `file:` address, with the links in its folder followed.
fn path_of(uri: &Uri) -> Option<PathBuf> {
    let path = Url::parse(uri.as_str()).ok()?.to_file_path().ok()?;
    let folder = fs_err::canonicalize(path.parent()?).ok()?;
    Some(folder.join(path.file_name()?))
}

/// The address of a file.
pub fn uri_of(path: &Path) -> Option<Uri> {
    Uri::from_str(Url::from_file_path(path).ok()?.as_str()).ok()
}
