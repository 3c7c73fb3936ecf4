//! What the doctor says: a list of findings.

use std::fmt;

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of the examination.
    pub lines: Vec<Line>,
    /// Whether programs find a GPU, or virtual machines can have one.
    pub usable: bool,
}

/// One finding.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// As it should be.
    Good(String),
    /// Works, and could be better.
    Note(String),
    /// Missing, and what to do about it.
    Bad(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Good(text) => write!(f, "ok       {text}"),
            Line::Note(text) => write!(f, "note     {text}"),
            Line::Bad(text) => write!(f, "missing  {text}"),
        }
    }
}

impl Report {
    /// Adds what is as it should be.
    pub fn good(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Good(text.into()));
    }

    /// Adds what could be better.
    pub fn note(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Note(text.into()));
    }

    /// Adds what is missing.
    pub fn bad(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Bad(text.into()));
    }
}
