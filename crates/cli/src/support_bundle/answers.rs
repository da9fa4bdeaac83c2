//! Collector of the daemon's answers: every list and object of the REST interface that needs no name, the scrub
//! of each pool, metrics, and a day of statistics.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::{Format, Method, ROUTES, Route};
use reqwest::Url;
use serde_json::Value;

use super::archive::Archive;
use crate::client::Client;

/// How long one answer may take, and all of them.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(90);

/// Series whose history is asked for; an array of many volumes has thousands.
const SERIES_MAX: usize = 256;

/// Seconds of their history.
const HISTORY_SECONDS: &str = "86400";

/// The interface's description, which comes with each version, and what never ends.
const LEFT_OUT: [Route; 3] = [Route::ShowOpenApi, Route::ShowHistory, Route::Stream];

/// Asks for everything, until nobody answers.
pub(super) fn collect(client: &Client, archive: &mut Archive) -> Result<()> {
    let mut asking = Asking { client, until: Instant::now() + PATIENCE, silent: None };
    let rows = ROUTES.iter().filter(|row| {
        row.method == Method::Get && !row.path.contains('{') && !LEFT_OUT.contains(&row.route)
    });
    for row in rows {
        let name = format!("answers{}", row.path.trim_start_matches("/v1"));
        let answer = asking.ask(row.path);
        match (answer, row.format) {
            (Ok(text), Format::Text) => archive.add(&format!("{name}.txt"), text.into_bytes())?,
            (Ok(text), _) => put(archive, &format!("{name}.json"), &text)?,
            (Err(reason), _) => archive.missing(&name, &reason),
        }
    }
    scrubs(&mut asking, archive)?;
    history(&mut asking, archive)
}

fn put(archive: &mut Archive, name: &str, text: &str) -> Result<()> {
    match serde_json::from_str(text) {
        Ok(value) => archive.add_value(name, value),
        // Without its fields nobody can tell what of it is secret.
        Err(_) => {
            archive.missing(name, "the answer is not JSON, or too long");
            Ok(())
        }
    }
}

fn scrubs(asking: &mut Asking<'_>, archive: &mut Archive) -> Result<()> {
    let pools = asking.list("/v1/pools");
    for name in pools.iter().filter_map(|pool| pool["name"].as_str()) {
        let file = format!("answers/scrubs/{name}.json");
        match asking.ask(&format!("/v1/pools/{name}/scrub")) {
            Ok(text) => put(archive, &file, &text)?,
            Err(reason) => archive.missing(&file, &reason),
        }
    }
    Ok(())
}

fn history(asking: &mut Asking<'_>, archive: &mut Archive) -> Result<()> {
    let all = asking.list("/v1/statistics/series");
    if all.len() > SERIES_MAX {
        let reason = format!("{} of {} series, the first ones", SERIES_MAX, all.len());
        archive.missing("answers/statistics/history (the rest)", &reason);
    }
    let mut histories = Vec::new();
    for name in all.iter().take(SERIES_MAX).filter_map(|series| series["name"].as_str()) {
        let words = [("series", name), ("seconds", HISTORY_SECONDS)];
        let Ok(url) = Url::parse_with_params("http://array/v1/statistics/history", words) else {
            continue;
        };
        match asking.ask(&format!("{}?{}", url.path(), url.query().unwrap_or_default())) {
            Ok(text) => histories.extend(serde_json::from_str::<Value>(&text)),
            Err(reason) => {
                archive.missing("answers/statistics/history", &reason);
                break;
            }
        }
    }
    archive.add_value("answers/statistics/history.json", histories.into())
}

/// A client that gives up when nobody answers: a daemon that hangs would cost the patience of every
/// question.
struct Asking<'a> {
    client: &'a Client,
    until: Instant,
    /// Why nobody is asked any more.
    silent: Option<String>,
}

impl Asking<'_> {
    /// The answer, or why there is none.
    fn ask(&mut self, path: &str) -> Result<String, String> {
        if let Some(reason) = &self.silent {
            return Err(reason.clone());
        }
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let reason = format!("the daemon took {} s for the answers before", PATIENCE.as_secs());
            return Err(self.silent.insert(reason).clone());
        }
        match self.client.ask_once(path, left.min(ANSWER_PATIENCE)) {
            Ok(answer) => answer,
            Err(error) => Err(self.silent.insert(format!("{error:#}")).clone()),
        }
    }

    fn list(&mut self, path: &str) -> Vec<Value> {
        let answer = self.ask(path).unwrap_or_default();
        serde_json::from_str(&answer).unwrap_or_default()
    }
}
