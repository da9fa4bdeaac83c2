//! Output formatters of `esxcli`: records as tables or blocks for people, or as CSV, JSON or XML.

use std::fmt::Write;

use serde_json::{Map, Value as Json};

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    /// Bytes, which people are shown in MiB.
    Mebibytes(u64),
    Truth(bool),
    List(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

impl Value {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Mebibytes(bytes) => format!("{} MiB", bytes >> 20),
            Self::Truth(truth) => truth.to_string(),
            Self::List(texts) => texts.join(", "),
        }
    }

    fn json(&self) -> Json {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Number(number) => (*number).into(),
            Self::Mebibytes(_) => self.shown().into(),
            Self::Truth(truth) => (*truth).into(),
            Self::List(texts) => texts.as_slice().into(),
        }
    }

    fn xml(&self) -> String {
        let escaped =
            |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        match self {
            Self::Text(_) | Self::Mebibytes(_) => {
                format!("<string>{}</string>", escaped(&self.shown()))
            }
            Self::Number(number) => format!("<integer>{number}</integer>"),
            Self::Truth(truth) => format!("<boolean>{truth}</boolean>"),
            Self::List(texts) => {
                let one = |text: &String| format!("<string>{}</string>", escaped(text));
                let all: String = texts.iter().map(one).collect();
                format!("<list type=\"string\">{all}</list>")
            }
        }
    }

    /// Whether esxcli puts it at the right of its column.
    fn is_at_right(&self) -> bool {
        match self {
            Self::Number(_) | Self::Mebibytes(_) | Self::Truth(_) => true,
            Self::Text(_) | Self::List(_) => false,
        }
    }
}

/// How people are shown records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// A line for each, below the names of the fields.
    Table,
    /// A block for each, a line for each field; above it the record's title, if there is one.
    Blocks,
}

/// Records of one kind.
#[derive(Clone, Debug)]
pub(super) struct Records {
    /// What XML calls such a record.
    pub(super) kind: &'static str,
    pub(super) layout: Layout,
    /// The names of the fields.
    pub(super) heads: &'static [&'static str],
    /// The field that a block's title is, where it is none of its lines.
    pub(super) title: Option<&'static str>,
    /// Titles, and values in the order of the names.
    pub(super) rows: Vec<(String, Vec<Value>)>,
}

/// What a command has to say.
#[derive(Clone, Debug)]
pub(super) enum Output {
    Nothing,
    /// A sentence or a single value.
    One(Value),
    Records(Records),
}

/// A formatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    People,
    Csv,
    Json,
    Xml,
}

impl Format {
    /// The formatter of a name, as `--formatter` takes it.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "xml" => Some(Self::Xml),
            _ => None,
        }
    }

    /// The output as text.
    pub(super) fn print(self, output: &Output) -> String {
        match (self, output) {
            (_, Output::Nothing) => String::new(),
            (Self::People | Self::Csv, Output::One(value)) => format!("{}\n", value.shown()),
            (Self::Json, Output::One(value)) => format!("{}\n", value.json()),
            (Self::Xml, Output::One(value)) => xml(&format!("   {}\n", value.xml())),
            (Self::People, Output::Records(records)) => match records.layout {
                Layout::Table => table(records),
                Layout::Blocks => blocks(records),
            },
            (Self::Csv, Output::Records(records)) => csv(records),
            (Self::Json, Output::Records(records)) => json(records),
            (Self::Xml, Output::Records(records)) => xml_records(records),
        }
    }
}

/// A name without spaces and signs, as programs are told it.
fn key(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

impl Records {
    /// The fields of each record by their keys, in the order of these.
    fn keyed(&self) -> Vec<Vec<(String, Value)>> {
        let record = |(title, values): &(String, Vec<Value>)| {
            let title = self.title.map(|name| (key(name), Value::from(title.as_str())));
            let fields = self.heads.iter().map(|head| key(head)).zip(values.iter().cloned());
            let mut fields: Vec<_> = title.into_iter().chain(fields).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            fields
        };
        self.rows.iter().map(record).collect()
    }
}

fn csv(records: &Records) -> String {
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    let line = |cells: Vec<String>| {
        let cells = cells.iter().map(|cell| format!("{},", quoted(cell)));
        format!("{}\n", cells.collect::<String>())
    };
    let mut heads: Vec<String> =
        records.title.iter().chain(records.heads).map(|h| key(h)).collect();
    heads.sort();
    let rows = records.keyed();
    let shown = rows.iter().map(|row| line(row.iter().map(|(_, v)| v.shown()).collect()));
    format!("{}{}", line(heads), shown.collect::<String>())
}

fn json(records: &Records) -> String {
    let object = |row: Vec<(String, Value)>| {
        let fields = row.into_iter().map(|(key, value)| (key, value.json()));
        Json::Object(fields.collect::<Map<_, _>>())
    };
    let all: Vec<Json> = records.keyed().into_iter().map(object).collect();
    format!("{}\n", Json::Array(all))
}

fn xml(inner: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <output xmlns=\"http://www.vmware.com/Products/ESX/5.0/esxcli\">\n\
         <root>\n{inner}</root>\n</output>\n"
    )
}

fn xml_records(records: &Records) -> String {
    let mut out = "   <list type=\"structure\">\n".to_owned();
    for row in records.keyed() {
        let _ = writeln!(out, "      <structure typeName=\"{}\">", records.kind);
        for (key, value) in row {
            let _ = writeln!(out, "         <field name=\"{key}\">");
            let _ = writeln!(out, "            {}", value.xml());
            out += "         </field>\n";
        }
        out += "      </structure>\n";
    }
    out += "   </list>\n";
    xml(&out)
}

fn blocks(records: &Records) -> String {
    let block = |(title, values): &(String, Vec<Value>)| {
        let mut out = String::new();
        if !title.is_empty() {
            let _ = writeln!(out, "{title}");
        }
        for (head, value) in records.heads.iter().zip(values) {
            let _ = writeln!(out, "   {head}: {}", value.shown());
        }
        out
    };
    records.rows.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// A table as esxcli prints it: columns as wide as their widest entry, dashes below the heads.
fn table(records: &Records) -> String {
    let rows: Vec<Vec<String>> =
        records.rows.iter().map(|(_, row)| row.iter().map(Value::shown).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.chain([records.heads[column].len()]).max().unwrap_or(0)
    };
    let at_right = |column: usize| {
        !rows.is_empty() && records.rows.iter().all(|(_, row)| row[column].is_at_right())
    };
    let columns: Vec<(usize, bool)> =
        (0..records.heads.len()).map(|n| (width(n), at_right(n))).collect();
    let cell = |(cell, (width, right)): (&str, &(usize, bool))| {
        if *right { format!("{cell:>width$}") } else { format!("{cell:width$}") }
    };
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.zip(&columns).map(cell).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let dashes: Vec<String> = columns.iter().map(|(width, _)| "-".repeat(*width)).collect();
    let mut text = line(&mut records.heads.iter().copied());
    text += &line(&mut dashes.iter().map(String::as_str));
    rows.iter().for_each(|row| text += &line(&mut row.iter().map(String::as_str)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: &[&str] = &["Device", "Size", "Is Good", "Paths"];

    fn records(layout: Layout, title: Option<&'static str>) -> Output {
        let row = |name: &str, bytes: u64, flag: bool, paths: &[&str]| {
            let paths = paths.iter().map(ToString::to_string).collect();
            (
                format!("t {name}"),
                vec![name.into(), Value::Mebibytes(bytes), flag.into(), Value::List(paths)],
            )
        };
        let rows = vec![row("a", 1 << 30, true, &["x", "y"]), row("b<&", 7 << 20, false, &[])];
        Output::Records(Records { kind: "Thing", layout, heads: HEADS, title, rows })
    }

    #[test]
    fn numbers_and_truth_stand_at_the_right_as_esxcli_puts_them() {
        let expected = "\
Device      Size  Is Good  Paths
------  --------  -------  -----
a       1024 MiB     true  x, y
b<&        7 MiB    false
";
        assert_eq!(Format::People.print(&records(Layout::Table, None)), expected);
    }

    #[test]
    fn blocks_have_a_title_and_a_line_for_each_field() {
        let text = Format::People.print(&records(Layout::Blocks, Some("Name")));
        let first = "t a\n   Device: a\n   Size: 1024 MiB\n   Is Good: true\n   Paths: x, y\n\nt b";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn programs_are_told_the_fields_by_their_names_in_order() {
        let output = records(Layout::Blocks, Some("Name"));
        assert_eq!(
            Format::Csv.print(&output),
            "Device,IsGood,Name,Paths,Size,\na,true,t a,\"x, y\",1024 MiB,\nb<&,false,t b<&,,7 MiB,\n"
        );
        assert_eq!(
            Format::Json.print(&output).split("},").next(),
            Some(
                "[{\"Device\":\"a\",\"IsGood\":true,\"Name\":\"t a\",\"Paths\":[\"x\",\"y\"],\"Size\":\"1024 MiB\""
            )
        );
        let xml = Format::Xml.print(&output);
        for part in [
            "<structure typeName=\"Thing\">",
            "<field name=\"IsGood\">\n            <boolean>true</boolean>",
            "<string>b&lt;&amp;</string>",
            "<list type=\"string\"><string>x</string><string>y</string></list>",
        ] {
            assert!(xml.contains(part), "{part} in {xml}");
        }
        for format in [Format::Csv, Format::Json, Format::Xml, Format::People] {
            assert_eq!(format.print(&Output::Nothing), "");
        }
        assert_eq!(Format::Json.print(&Output::One(true.into())), "true\n");
    }
}
