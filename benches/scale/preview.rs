//! From the event of a pull request to the text of its comment: fetched, read, planned and written.

use super::Fallible;
use git2::{Repository, Signature};
use stator::controller::report::preview::planner::PullRequestPlanner;
use stator::controller::report::preview::trees::{self, PullRequestRefs};
use stator_git::source::credentials::GitCredentials;
use stator_git::source::mirror::{Mirror, RemoteRepository};
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};
use stator_model::intent::SourceFile;
use stator_model::present::preview::{CommentLimits, PreviewComment, PreviewContent, render_comment};
use std::path::Path;
use std::time::Instant;

/// `first` is the first pull request after a start, with everything still to be read; `one-changed` a later one.
pub(crate) fn run(which: &str, folder: &Path) -> Fallible<(f64, String)> {
    let tree = stator_git::source::open(folder)?.tree;
    let place = tempfile::tempdir()?;
    let path = place.path().join("origin.git");
    let origin = Repository::init_bare(&path)?;
    let main = commit(&origin, "refs/heads/main", None, &tree.files)?;
    for number in [1_u32, 2] {
        // Every third has the shape with a count to change.
        let model = tree.files.iter().filter(|file| file.path.ends_with("model.yaml")).nth(number as usize * 3);
        let model = model.ok_or("too few models")?;
        let text = String::from_utf8(model.content.clone()?.to_vec())?.replace("replicas: 1", "replicas: 2");
        let changed = SourceFile { path: model.path.clone(), content: Ok(text.into_bytes().into()) };
        commit(&origin, &format!("refs/pull/{number}/head"), Some(main), &[changed])?;
    }
    let url = RepositoryUrl::parse(path.to_str().ok_or("no path")?, AllowedSchemes { local: true, insecure: false })?;
    let remote = RemoteRepository::new(url.clone(), GitCredentials::read(None, &url)?);
    let mut mirror = Mirror::open(&place.path().join("data"), remote)?;
    let mut planner = PullRequestPlanner::new(Some("prod".to_owned()), None);
    if which != "first" {
        preview(&mut mirror, &mut planner, 2)?;
    }
    let start = Instant::now();
    let (body, models) = preview(&mut mirror, &mut planner, 1)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((
        seconds,
        format!("a comment of {} bytes on 1 changed model of {models}: {:.0} ms", body.len(), seconds * 1000.0),
    ))
}

fn preview(mirror: &mut Mirror, planner: &mut PullRequestPlanner, number: u32) -> Fallible<(String, usize)> {
    let wanted = PullRequestRefs {
        branch: "main".to_owned(),
        tip: None,
        fetch: format!("refs/pull/{number}/head"),
        head: String::new(),
        folder: String::new(),
    };
    let sides = trees::fetch_sides(mirror, &wanted)?;
    let sides = trees::read_sides(mirror, sides, &wanted.folder)?;
    let planned = planner.plan(&sides)?;
    let preview = PreviewComment {
        scope: "bench",
        environment: "prod",
        head: &sides.head_commit,
        content: PreviewContent::Plan(&planned.plan),
        models: Some(planned.models),
        notes: &planned.notes,
        link: None,
    };
    let body = render_comment(&preview, CommentLimits::default());
    if !body.contains("1 of") {
        return Err(format!("not one model changes:\n{body}").into());
    }
    Ok((body, planned.models))
}

fn commit(origin: &Repository, name: &str, on: Option<git2::Oid>, files: &[SourceFile]) -> Fallible<git2::Oid> {
    let parent = on.map(|id| origin.find_commit(id)).transpose()?;
    let mut changes = git2::build::TreeUpdateBuilder::new();
    for file in files {
        changes.upsert(file.path.as_str(), origin.blob(&file.content.clone()?)?, git2::FileMode::Blob);
    }
    let empty = origin.treebuilder(None)?.write()?;
    let base = origin.find_tree(parent.as_ref().map_or(empty, git2::Commit::tree_id))?;
    let tree = origin.find_tree(changes.create_updated(origin, &base)?)?;
    let who = Signature::new("bench", "bench@example.com", &git2::Time::new(1_700_000_000, 0))?;
    let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
    Ok(origin.commit(Some(name), &who, &who, "change", &tree, &parents)?)
}
