//! `esxcli system settings advanced` and `esxcfg-advcfg`.

use anyhow::{Context, Result, bail, ensure};

use super::output::{Layout, Output, Records, Value};
use super::words::Options;
use crate::esxi::settings::{ADVANCED, Advanced};
use crate::esxi::state::Host;

pub(super) fn list(host: &mut Host, options: &Options) -> Result<Output> {
    let settings = &host.record.settings;
    let changed =
        |setting: &&Advanced| !options.has("delta") || setting.get(settings) != setting.default;
    let chosen: Vec<&Advanced> = match options.get("option") {
        Some(path) => vec![find(path)?],
        None => ADVANCED.iter().collect(),
    };
    let row = |setting: &Advanced| -> (String, Vec<Value>) {
        let values = vec![
            setting.path.into(),
            "integer".into(),
            setting.get(settings).into(),
            setting.default.into(),
            setting.min.into(),
            setting.max.into(),
            "".into(),
            "".into(),
            "".into(),
            setting.description.into(),
        ];
        (String::new(), values)
    };
    Ok(Output::Records(Records {
        kind: "Option",
        layout: Layout::Blocks,
        title: None,
        heads: &[
            "Path",
            "Type",
            "Int Value",
            "Default Int Value",
            "Min Value",
            "Max Value",
            "String Value",
            "Default String Value",
            "Valid Characters",
            "Description",
        ],
        rows: chosen.into_iter().filter(changed).map(row).collect(),
    }))
}

fn find(path: &str) -> Result<&'static Advanced> {
    Advanced::find(path).with_context(|| format!("Unable to find option {path}"))
}

pub(super) fn set(host: &mut Host, options: &Options) -> Result<Output> {
    let setting = find(options.need("option")?)?;
    let value = if options.has("default") {
        setting.default
    } else {
        let given = options.number("int-value");
        given.context("Error: Missing required parameter -i|--int-value")?
    };
    change(host, setting, value)?;
    Ok(Output::Nothing)
}

fn change(host: &mut Host, setting: &Advanced, value: u64) -> Result<()> {
    host.change(|record| {
        let done = setting.set(&mut record.settings, value);
        ensure!(
            done,
            "Unable to set {}: {value} is not between {} and {}",
            setting.path,
            setting.min,
            setting.max
        );
        Ok(())
    })
}

/// Carries out `esxcfg-advcfg -g PATH` and `-s VALUE PATH`.
///
/// # Errors
/// Unknown words and paths, values that are not allowed.
pub fn advcfg(host: &mut Host, words: &[String]) -> Result<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let setting = match words[..] {
        ["-g" | "--get", path] => find(path)?,
        ["-s" | "--set", value, path] => {
            let setting = find(path)?;
            let value = value.parse().with_context(|| format!("{value} is not a number"))?;
            change(host, setting, value)?;
            setting
        }
        _ => bail!("usage: esxcfg-advcfg -g PATH | -s VALUE PATH"),
    };
    Ok(format!("Value of {} is {}\n", setting.name(), setting.get(&host.record.settings)))
}
