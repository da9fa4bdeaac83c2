//! `esxcli storage core claimrule`, of the class VAAI: how XCOPY is cut for the devices of an array.

use anyhow::{Context, Result, bail, ensure};

use super::output::{Layout, Output, Records, Value};
use super::words::Options;
use crate::esxi::settings::ClaimRule;
use crate::esxi::state::Host;

fn check_class(options: &Options) -> Result<()> {
    match options.need("claimrule-class")? {
        "VAAI" => Ok(()),
        other => bail!("Error: claim rules of the class {other} are not kept here: VAAI is"),
    }
}

/// Prints loaded rules and saved ones.
pub(super) fn list(host: &mut Host, options: &Options) -> Result<Output> {
    check_class(options)?;
    let settings = &host.record.settings;
    let row = |class: &str, rule: &ClaimRule| -> Vec<Value> {
        vec![
            "VAAI".into(),
            rule.number.into(),
            class.into(),
            "vendor".into(),
            rule.plugin.clone().into(),
            format!("vendor={} model={}", rule.vendor, rule.model).into(),
            rule.use_array_values.into(),
            rule.use_multiple_segments.into(),
            rule.max_transfer_mib.max(rule.max_transfer_kib >> 10).into(),
        ]
    };
    let loaded = settings.loaded_claim_rules.iter().map(|rule| (rule.number, "runtime", rule));
    let saved = settings.claim_rules.iter().map(|rule| (rule.number, "file", rule));
    let mut rules: Vec<_> = loaded.chain(saved).collect();
    rules.sort_by_key(|(number, class, _)| (*number, *class == "file"));
    let rows = rules.into_iter().map(|(_, class, rule)| (String::new(), row(class, rule)));
    Ok(Output::Records(Records {
        kind: "ClaimRule",
        layout: Layout::Table,
        title: None,
        heads: &[
            "Rule Class",
            "Rule",
            "Class",
            "Type",
            "Plugin",
            "Matches",
            "XCOPY Use Array Reported Values",
            "XCOPY Use Multiple Segments",
            "XCOPY Max Transfer Size",
        ],
        rows: rows.collect(),
    }))
}

/// Saves a rule; it counts from the next load on.
pub(super) fn add(host: &mut Host, options: &Options) -> Result<Output> {
    check_class(options)?;
    ensure!(options.get("type") == Some("vendor"), "Error: --type must be vendor");
    let text = |name: &str, default: &str| options.get(name).unwrap_or(default).to_owned();
    let rule = ClaimRule {
        number: number_of(options)?,
        vendor: text("vendor", "*"),
        model: text("model", "*"),
        plugin: text("plugin", ""),
        use_array_values: options.has("xcopy-use-array-values"),
        use_multiple_segments: options.has("xcopy-use-multi-segs"),
        max_transfer_mib: options.number("xcopy-max-transfer-size").unwrap_or(0),
        max_transfer_kib: options.number("xcopy-max-transfer-size-kib").unwrap_or(0),
    };
    check(&rule)?;
    host.change(|record| {
        let rules = &mut record.settings.claim_rules;
        let taken = rules.iter().any(|known| known.number == rule.number);
        ensure!(!taken, "Error: there is a rule {} already", rule.number);
        rules.push(rule);
        rules.sort_by_key(|rule| rule.number);
        Ok(())
    })?;
    Ok(Output::Nothing)
}

fn number_of(options: &Options) -> Result<u64> {
    options.number("rule").context("Error: Missing required parameter -r|--rule")
}

fn check(rule: &ClaimRule) -> Result<()> {
    let sizes = rule.max_transfer_mib.saturating_add(rule.max_transfer_kib);
    let more = rule.use_multiple_segments || sizes > 0;
    ensure!(rule.use_array_values || !more, "Error: -s, -m and -k need -a");
    ensure!(
        rule.max_transfer_mib == 0 || rule.max_transfer_kib == 0,
        "Error: -m and -k exclude each other"
    );
    ensure!(!rule.plugin.is_empty(), "Error: Missing required parameter -P|--plugin");
    ensure!(
        rule.vendor != "*" || rule.model != "*",
        "Error: Missing required parameter -V|--vendor or -M|--model"
    );
    Ok(())
}

/// Forgets a saved rule; it counts until the next load.
pub(super) fn remove(host: &mut Host, options: &Options) -> Result<Output> {
    check_class(options)?;
    let number = number_of(options)?;
    host.change(|record| {
        let rules = &mut record.settings.claim_rules;
        let before = rules.len();
        rules.retain(|rule| rule.number != number);
        ensure!(rules.len() < before, "Error: there is no rule {number}");
        Ok(())
    })?;
    Ok(Output::Nothing)
}

/// Makes the saved rules count.
pub(super) fn load(host: &mut Host, options: &Options) -> Result<Output> {
    check_class(options)?;
    host.change(|record| {
        record.settings.loaded_claim_rules = record.settings.claim_rules.clone();
        Ok(())
    })?;
    Ok(Output::Nothing)
}
