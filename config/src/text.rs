//! Reads the file: from text to sections by the table of settings, with the place of everything.
//!
//! Reading goes on after a mistake, so that all of them are reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::{
    Bridge, Control, Datapath, Error, Errors, Fault, General, Key, Log, Place, Pmd, Port, Problem,
    Raw, Section, Subject, Topology, Umem, settings::Presence,
};

/// Reads and checks the file at `path`.
///
/// # Errors
/// Everything that is wrong with it, or why it cannot be read.
pub fn load(path: &Path) -> Result<Topology, Errors> {
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &file),
        Err(error) => {
            let place = Some(Place { file, line: 0, column: 0 });
            Err(Error { place, problem: Problem::Unreadable(error) }.into())
        }
    }
}

/// Reads and checks a text; `file` is what messages call it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str, file: &str) -> Result<Topology, Errors> {
    let mut reader = Reader::new(text, file);
    let (document, syntax) = DeTable::parse_recoverable(text);
    for error in syntax {
        let offset = error.span().map_or(text.len(), |span| span.start);
        reader.report(offset, Problem::Syntax(error.message().to_owned()));
    }
    if let Some(errors) = Errors::collect(std::mem::take(&mut reader.errors)) {
        return Err(errors);
    }
    let topology = reader.topology(document.get_ref());
    for fault in topology.faults() {
        reader.fault(fault);
    }
    match Errors::collect(reader.errors) {
        Some(errors) => Err(errors),
        None => Ok(topology),
    }
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    /// Where the lines end, as a rule knows its line and there may be many.
    ends: Vec<usize>,
    errors: Vec<Error>,
    /// Where each section (key "") and each of its keys begins.
    places: BTreeMap<(&'static str, usize, &'static str), usize>,
    /// Sections in which a value is wrong, so that what follows from it need not be said.
    bad: BTreeSet<(&'static str, usize)>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, file: &'a str) -> Self {
        let (places, bad) = (BTreeMap::new(), BTreeSet::new());
        let ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Self { text, file, ends, errors: Vec::new(), places, bad }
    }

    fn line(&self, offset: usize) -> u32 {
        let before = self.ends.partition_point(|&end| end < offset);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    fn report(&mut self, offset: usize, problem: Problem) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let last_line = before.rsplit('\n').next().unwrap_or(before);
        let column = last_line.chars().fold(1, |column, _| column + 1);
        let place = Place { file: self.file.to_owned(), line: self.line(offset), column };
        self.errors.push(Error { place: Some(place), problem });
    }

    /// Reports what is wrong between settings, unless it follows from a value already reported.
    fn fault(&mut self, fault: Fault) {
        let follows = self.bad.iter().any(|&(section, index)| {
            fault.depends.contains(&section) || (section, index) == (fault.section, fault.index)
        });
        if follows {
            return;
        }
        let at = |key| self.places.get(&(fault.section, fault.index, key)).copied();
        let offset = at(fault.key).or_else(|| at("")).unwrap_or(0);
        self.report(offset, fault.problem);
    }

    fn topology(&mut self, document: &DeTable<'_>) -> Topology {
        self.unknown_sections(document);
        Topology {
            general: self.section(document, Subject::General, 0, 0),
            umem: self.table(document),
            pmd: self.table(document),
            datapath: self.table(document),
            log: self.table(document),
            control: self.table(document),
            bridges: self.array(document),
            ports: self.array(document),
        }
    }

    fn unknown_sections(&mut self, document: &DeTable<'_>) {
        let general = General::KEYS.iter().map(|key| key.name);
        let allowed: Vec<_> = general.chain(SECTIONS.iter().copied()).collect();
        for key in document.keys() {
            if !allowed.contains(&key.get_ref().as_ref()) {
                let name = key.get_ref().to_string();
                let problem = Problem::UnknownSection { name, allowed: allowed.clone() };
                self.report(key.span().start, problem);
            }
        }
    }

    /// The table `[S]`; all defaults when it is not there.
    fn table<S: Section>(&mut self, document: &DeTable<'_>) -> S {
        let Some(value) = document.get(S::NAME) else { return S::preset() };
        let offset = value.span().start;
        if let DeValue::Table(table) = value.get_ref() {
            return self.section(table, Subject::Table(S::NAME), 0, offset);
        }
        self.not_a_section::<S>(offset, value.get_ref(), format!("a table [{}]", S::NAME));
        S::preset()
    }

    /// All `[[S]]`.
    fn array<S: Section>(&mut self, document: &DeTable<'_>) -> Vec<S> {
        let Some(value) = document.get(S::NAME) else { return Vec::new() };
        let allowed = format!("tables, each with the heading [[{}]]", S::NAME);
        let DeValue::Array(array) = value.get_ref() else {
            self.not_a_section::<S>(value.span().start, value.get_ref(), allowed);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (index, item) in array.iter().enumerate() {
            if let DeValue::Table(table) = item.get_ref() {
                let name = table.get("name").and_then(|name| name.get_ref().as_str());
                let subject = match name {
                    Some(name) => Subject::Named(S::NAME, name.to_owned()),
                    None => Subject::Nameless(S::NAME, index + 1),
                };
                sections.push(self.section(table, subject, index, item.span().start));
            } else {
                self.not_a_section::<S>(item.span().start, item.get_ref(), allowed.clone());
            }
        }
        sections
    }

    fn not_a_section<S: Section>(&mut self, offset: usize, found: &DeValue<'_>, allowed: String) {
        self.bad.insert((S::NAME, 0));
        let found = raw(found, |_| 0).to_string();
        let subject = Subject::General;
        self.report(offset, Problem::Value { subject, key: S::NAME, found, allowed });
    }

    fn section<S: Section>(
        &mut self,
        table: &DeTable<'_>,
        subject: Subject,
        index: usize,
        offset: usize,
    ) -> S {
        let n_errors = self.errors.len();
        self.places.insert((S::NAME, index, ""), offset);
        let mut section = S::preset();
        for key in S::KEYS {
            match table.get(key.name) {
                Some(value) => self.value(&mut section, key, value, (&subject, index)),
                None if key.presence == Presence::Required => {
                    let (subject, allowed) = (subject.clone(), (key.allowed)());
                    let problem = Problem::Missing { subject, key: key.name, allowed };
                    self.report(offset, problem);
                }
                None => {}
            }
        }
        if subject != Subject::General {
            self.unknown_keys::<S>(table, &subject);
        }
        if self.errors.len() > n_errors {
            self.bad.insert((S::NAME, index));
        }
        section
    }

    fn value<S: Section>(
        &mut self,
        section: &mut S,
        key: &Key<S>,
        value: &Spanned<DeValue<'_>>,
        (subject, index): (&Subject, usize),
    ) {
        let offset = value.span().start;
        self.places.insert((S::NAME, index, key.name), offset);
        let raw = raw(value.get_ref(), |offset| self.line(offset));
        if !(key.set)(section, &raw) {
            let (subject, found, allowed) = (subject.clone(), raw.to_string(), (key.allowed)());
            self.report(offset, Problem::Value { subject, key: key.name, found, allowed });
        }
    }

    fn unknown_keys<S: Section>(&mut self, table: &DeTable<'_>, subject: &Subject) {
        let allowed: Vec<_> = S::KEYS.iter().map(|key| key.name).collect();
        for key in table.keys() {
            if !allowed.contains(&key.get_ref().as_ref()) {
                let (subject, key_text) = (subject.clone(), key.get_ref().to_string());
                let allowed = allowed.clone();
                let problem = Problem::UnknownKey { subject, key: key_text, allowed };
                self.report(key.span().start, problem);
            }
        }
    }
}

/// Every section but the first, which has no name.
const SECTIONS: [&str; 7] =
    [Umem::NAME, Pmd::NAME, Datapath::NAME, Log::NAME, Control::NAME, Bridge::NAME, Port::NAME];

/// A value of the parser as one of ours; `line` tells on which line an offset is.
fn raw<'v>(value: &'v DeValue<'_>, line: impl Fn(usize) -> u32) -> Raw<'v> {
    match value {
        DeValue::String(text) => Raw::Text(text),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or(Raw::Other("a number of more than 38 digits"), Raw::Integer),
        DeValue::Boolean(boolean) => Raw::Boolean(*boolean),
        DeValue::Array(array) => list(array, line),
        DeValue::Float(_) => Raw::Other("a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

fn list<'v>(array: &'v DeArray<'_>, line: impl Fn(usize) -> u32) -> Raw<'v> {
    let strings = array.iter().map(|item| {
        let text = item.get_ref().as_str()?;
        Some((line(item.span().start), text))
    });
    let strings: Option<Vec<_>> = strings.collect();
    strings.map_or(Raw::Other("a list that holds other things than strings"), Raw::List)
}
