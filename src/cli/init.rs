//! `stator init`: an example repository, or a model from the catalogue.

use super::args::to_yaml;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::files;
use super::list_output::ListFormat;
use super::output::Output;
use clap::{Args, ValueHint};
use serde::Serialize;
use stator_core::finding::did_you_mean;
use stator_git::source;
use stator_model::catalogue::{self, ESTIMATES, PriceEstimate, Recipe, RecipeSummary, hardware_name};
use stator_model::intent::scaffold;
use stator_model::present::table::{TableCell, TextTable};
use stator_model::present::{TerminalOptions, escape, json};
use std::path::{Path, PathBuf};

/// The hardware of a recipe when none is asked for.
const USUAL_HARDWARE: &str = "H200";

/// Create an example repository, or add a model from a recipe
#[derive(Debug, Args)]
#[command(after_help = "\
Existing files are never overwritten. With --recipe, a folder in no repository becomes one; in a repository, only the \
model's folder is written: below `models` in its root, and in the folder itself elsewhere.")]
pub struct InitArgs {
    /// The folder; created if missing
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// List the recipes, and what they need
    #[arg(long, conflicts_with = "recipe")]
    list: bool,
    /// Write the model of this recipe instead of examples; `--list` names them
    #[arg(long, value_name = "NAME")]
    recipe: Option<String>,
    /// GPUs to size the model for, or to list recipes for: H100, H200, B200 or GB200. Without it, a recipe is for H200
    #[arg(long, value_name = "GPU")]
    hardware: Option<String>,
    /// Output format of the list
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ListFormat,
    /// Print only rows of the list, without headings
    #[arg(long)]
    no_headers: bool,
}

/// What is written: files by their path from a folder.
struct NewFiles {
    folder: PathBuf,
    files: Vec<(String, String)>,
}

pub fn run(arguments: &InitArgs, output: &Output) -> Result<ExitStatus, CliError> {
    if arguments.list {
        list_recipes(arguments, output)?;
        return Ok(ExitStatus::Success);
    }
    match (&arguments.recipe, &arguments.hardware) {
        (Some(name), hardware) => {
            let recipe = find_recipe(name, hardware.as_deref().unwrap_or(USUAL_HARDWARE))?;
            write_recipe(&recipe, &arguments.directory, output)?;
        }
        (None, Some(_)) => {
            return Err(CliError::usage("--hardware needs --recipe or --list")
                .with_hint("`stator init --list` names the recipes and their hardware"));
        }
        (None, None) => write_examples(&arguments.directory, output)?,
    }
    Ok(ExitStatus::Success)
}

fn write_examples(folder: &Path, output: &Output) -> Result<(), CliError> {
    let files = scaffold::repository_files(&folder_name(folder)?);
    NewFiles { folder: folder.to_owned(), files }.write("stator init DIR", output)?;
    output.note(&format!(
        "Next: {}stator validate && stator sync -e staging --cluster embedded --simulate-operator --wait",
        change_folder(folder)
    ));
    Ok(())
}

/// What the user called the folder, which is created if it is missing.
fn folder_name(folder: &Path) -> Result<String, CliError> {
    fs_err::create_dir_all(folder)?;
    let absolute = fs_err::canonicalize(folder)?;
    Ok(absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
}

fn change_folder(folder: &Path) -> String {
    if folder.as_os_str() == "." { String::new() } else { format!("cd {} && ", folder.display()) }
}

impl NewFiles {
    /// Writes all of them or none: half a repository beside somebody's files helps nobody.
    fn write(&self, elsewhere: &str, output: &Output) -> Result<(), CliError> {
        let is_taken = |path: &str| self.folder.join(path).symlink_metadata().is_ok();
        if let Some((taken, _)) = self.files.iter().find(|(path, _)| is_taken(path)) {
            return Err(CliError::input(format!("{} exists already", self.folder.join(taken).display()))
                .with_hint(format!("choose another folder: `{elsewhere}`")));
        }
        for (path, text) in &self.files {
            files::write_atomically(&self.folder.join(path), text.as_bytes())?;
            output.write_result(&(escape::line(path) + "\n"))?;
        }
        Ok(())
    }
}

/// The recipe of a name, which may be written with the dots of the model's, for some hardware.
fn find_recipe(name: &str, hardware: &str) -> Result<Recipe, CliError> {
    let wanted = name.to_ascii_lowercase().replace('.', "-");
    let (same, others): (Vec<Recipe>, Vec<Recipe>) =
        catalogue::recipes().into_iter().partition(|recipe| recipe.name == wanted);
    if same.is_empty() {
        let mut names: Vec<&str> = others.iter().map(|recipe| recipe.name).collect();
        names.dedup();
        return Err(CliError::input(format!("there is no recipe `{name}`"))
            .with_hint(did_you_mean(&wanted, names.iter().copied()).unwrap_or_default())
            .with_hint(format!("choose one of {}; `stator init --list` describes them", names.join(", "))));
    }
    let known: Vec<String> = same.iter().map(|recipe| hardware_name(recipe.gpu)).collect();
    same.into_iter().find(|recipe| recipe.is_for(hardware)).ok_or_else(|| {
        CliError::input(format!("recipe `{wanted}` has no sizes for `{hardware}`"))
            .with_hint(format!("choose its hardware with --hardware: {}", known.join(", ")))
    })
}

fn write_recipe(recipe: &Recipe, directory: &Path, output: &Output) -> Result<(), CliError> {
    let summary = summarize(recipe)?;
    let name = folder_name(directory)?;
    let root = source::find_repository(directory)?;
    let is_new = root.join("stator.yaml").symlink_metadata().is_err();
    let is_root = root == fs_err::canonicalize(directory)?;
    let folder = if is_root { format!("models/{}", recipe.name) } else { recipe.name.to_owned() };
    let mut new: Vec<(String, String)> =
        recipe.files().into_iter().map(|(path, text)| (format!("{folder}/{path}"), text.to_owned())).collect();
    if is_new {
        new.push(("stator.yaml".to_owned(), catalogue::repository_file(&name, recipe.gpu)));
    }
    let elsewhere = format!("stator init --recipe {} DIR", recipe.name);
    NewFiles { folder: directory.to_owned(), files: new }.write(&elsewhere, output)?;
    let price = summary.estimated_price_per_hour.map(|price| format!(", about ${price:.2}/h")).unwrap_or_default();
    let RecipeSummary { model, hardware, gpus, .. } = &summary;
    output.note(&format!("{model} on {gpus} {hardware}{price}. Look at these lines first:"));
    let written = directory.strip_prefix(".").unwrap_or(directory).join(&folder).join("model.yaml");
    for edit in recipe.edits() {
        output.note(&format!("  {}:{}: {}: {}", written.display(), edit.line, edit.field, edit.advice));
    }
    let place = change_folder(directory);
    output.note(&match is_new {
        true => format!("Next: {place}stator validate && stator sync --cluster embedded --simulate-operator --wait"),
        false => format!("Next: {place}stator validate {folder}"),
    });
    Ok(())
}

fn summarize(recipe: &Recipe) -> Result<RecipeSummary, CliError> {
    recipe.summarize().map_err(|findings| {
        let message = findings.first().map_or("it does not render", |finding| finding.message.as_str());
        CliError::new(CliErrorKind::Bug, format!("recipe `{}` is not valid: {message}", recipe.name))
    })
}

/// What `init --list -o json` prints.
#[derive(Debug, Serialize)]
struct RecipeListReport {
    recipes: Vec<RecipeSummary>,
    prices: Vec<PriceEstimate>,
}

fn list_recipes(arguments: &InitArgs, output: &Output) -> Result<(), CliError> {
    let all = catalogue::recipes();
    let is_asked = |recipe: &Recipe| arguments.hardware.as_deref().is_none_or(|hardware| recipe.is_for(hardware));
    let recipes: Vec<RecipeSummary> =
        all.iter().filter(|recipe| is_asked(recipe)).map(summarize).collect::<Result<_, _>>()?;
    if let (true, Some(hardware)) = (recipes.is_empty(), &arguments.hardware) {
        let known: Vec<String> = ESTIMATES.iter().map(|one| hardware_name(one.gpu)).collect();
        return Err(CliError::input(format!("no recipe has sizes for `{hardware}`"))
            .with_hint(format!("choose with --hardware: {}", known.join(", "))));
    }
    let is_shown = |price: &PriceEstimate| recipes.iter().any(|one| one.hardware == hardware_name(price.gpu));
    let prices: Vec<PriceEstimate> = ESTIMATES.into_iter().filter(is_shown).collect();
    let mut names: Vec<&str> = recipes.iter().map(|one| one.name).collect();
    names.dedup();
    output.write_result(&match arguments.output {
        ListFormat::Text | ListFormat::Wide => format_table(&recipes, arguments, output),
        ListFormat::Name => names.join("\n") + "\n",
        ListFormat::Json => return output.write_result(&json(&RecipeListReport { recipes, prices })?),
        ListFormat::Yaml => return output.write_result(&to_yaml(&RecipeListReport { recipes, prices })?),
    })?;
    if arguments.output != ListFormat::Name {
        for PriceEstimate { gpu, dollars, date, provider, source } in prices {
            let gpu = hardware_name(gpu);
            output.note(&format!("Estimate of ${dollars:.2}/h for one {gpu}: {provider} on {date}, {source}"));
        }
        output.note("Next: stator init --recipe NAME --hardware GPU DIR");
    }
    Ok(())
}

fn format_table(recipes: &[RecipeSummary], arguments: &InitArgs, output: &Output) -> String {
    let is_wide = arguments.output == ListFormat::Wide;
    let mut headings = vec!["NAME", "HARDWARE", "ENGINE", "MODEL", "SERVING", "GPUS", "ESTIMATE/H"];
    headings.extend(is_wide.then_some("BASIS"));
    let mut table = TextTable::new(&headings).least_important(&["MODEL", "ENGINE", "SERVING"]);
    for one in recipes {
        let price = one.estimated_price_per_hour.map(|price| format!("${price:.2}")).unwrap_or_default();
        let gpus = one.gpus.to_string();
        let cells = [one.name, &one.hardware, &one.engine, &one.model, &one.serving, &gpus, &price, one.basis];
        table.row(cells.map(TableCell::plain));
    }
    table.render(&TerminalOptions { rows_only: arguments.no_headers, ..output.stdout_style })
}
