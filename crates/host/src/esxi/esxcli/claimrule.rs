//! `esxcli storage core claimrule`, of the class VAAI: how XCOPY is cut for the devices of an array.

use anyhow::{Result, bail, ensure};

use super::{Options, number, table};
use crate::esxi::settings::ClaimRule;
use crate::esxi::state::Host;

const CLASS: [&str; 2] = ["-c", "--claimrule-class"];
const RULE: [&str; 2] = ["-r", "--rule"];
const TYPE: [&str; 2] = ["-t", "--type"];
const VENDOR: [&str; 2] = ["-V", "--vendor"];
const MODEL: [&str; 2] = ["-M", "--model"];
const PLUGIN: [&str; 2] = ["-P", "--plugin"];
const ARRAY_VALUES: [&str; 2] = ["-a", "--xcopy-use-array-values"];
const SEGMENTS: [&str; 2] = ["-s", "--xcopy-use-multi-segs"];
const MAX_MIB: [&str; 2] = ["-m", "--xcopy-max-transfer-size"];
const MAX_KIB: [&str; 2] = ["-k", "--xcopy-max-transfer-size-kib"];

fn check_class(options: &Options<'_>) -> Result<()> {
    match options.get(CLASS) {
        Some("VAAI") => Ok(()),
        Some(other) => bail!("Error: claim rules of the class {other} are not kept here: VAAI is"),
        None => bail!("Error: Missing required parameter -c|--claimrule-class: VAAI"),
    }
}

fn parse<'a>(rest: &'a [String], known: &[[&str; 2]]) -> Result<Options<'a>> {
    let options = Options::parse(rest, &[ARRAY_VALUES, SEGMENTS].concat())?;
    options.only(&[&[CLASS], known].concat().concat())?;
    check_class(&options)?;
    Ok(options)
}

/// Prints loaded rules and saved ones.
pub(super) fn list(host: &Host, rest: &[String]) -> Result<String> {
    parse(rest, &[])?;
    let settings = &host.record.settings;
    let row = |class: &str, rule: &ClaimRule| {
        vec![
            "VAAI".to_owned(),
            rule.number.to_string(),
            class.to_owned(),
            "vendor".into(),
            rule.plugin.clone(),
            format!("vendor={} model={}", rule.vendor, rule.model),
            rule.use_array_values.to_string(),
            rule.use_multiple_segments.to_string(),
            rule.max_transfer_mib.max(rule.max_transfer_kib >> 10).to_string(),
        ]
    };
    let loaded = settings.loaded_claim_rules.iter().map(|rule| (rule.number, "runtime", rule));
    let saved = settings.claim_rules.iter().map(|rule| (rule.number, "file", rule));
    let mut rules: Vec<_> = loaded.chain(saved).collect();
    rules.sort_by_key(|(number, class, _)| (*number, *class == "file"));
    let heads = [
        "Rule Class",
        "Rule",
        "Class",
        "Type",
        "Plugin",
        "Matches",
        "XCOPY Use Array Reported Values",
        "XCOPY Use Multiple Segments",
        "XCOPY Max Transfer Size",
    ];
    let rows: Vec<_> = rules.into_iter().map(|(_, class, rule)| row(class, rule)).collect();
    Ok(table(&heads, &rows))
}

/// Saves a rule; it counts from the next load on.
pub(super) fn add(host: &mut Host, rest: &[String]) -> Result<String> {
    let known = [RULE, TYPE, VENDOR, MODEL, PLUGIN, ARRAY_VALUES, SEGMENTS, MAX_MIB, MAX_KIB];
    let options = parse(rest, &known)?;
    ensure!(options.get(TYPE) == Some("vendor"), "Error: --type must be vendor");
    let text = |names: [&str; 2], default: &str| options.get(names).unwrap_or(default).to_owned();
    let size = |names| options.get(names).map_or(Ok(0), |size| number(Some(size), names[0]));
    let rule = ClaimRule {
        number: number(options.get(RULE), "-r|--rule")?,
        vendor: text(VENDOR, "*"),
        model: text(MODEL, "*"),
        plugin: text(PLUGIN, ""),
        use_array_values: options.has(ARRAY_VALUES),
        use_multiple_segments: options.has(SEGMENTS),
        max_transfer_mib: size(MAX_MIB)?,
        max_transfer_kib: size(MAX_KIB)?,
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
    Ok(String::new())
}

fn check(rule: &ClaimRule) -> Result<()> {
    let more = rule.use_multiple_segments || rule.max_transfer_mib + rule.max_transfer_kib > 0;
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
pub(super) fn remove(host: &mut Host, rest: &[String]) -> Result<String> {
    let options = parse(rest, &[RULE])?;
    let number = number(options.get(RULE), "-r|--rule")?;
    host.change(|record| {
        let rules = &mut record.settings.claim_rules;
        let before = rules.len();
        rules.retain(|rule| rule.number != number);
        ensure!(rules.len() < before, "Error: there is no rule {number}");
        Ok(())
    })?;
    Ok(String::new())
}

/// Makes the saved rules count.
pub(super) fn load(host: &mut Host, rest: &[String]) -> Result<String> {
    parse(rest, &[])?;
    host.change(|record| {
        record.settings.loaded_claim_rules = record.settings.claim_rules.clone();
        Ok(())
    })?;
    Ok(String::new())
}
