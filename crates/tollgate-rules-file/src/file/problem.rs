//! A mistake in a rules file, with its position.

use std::fmt;

use serde::Serialize;

use super::draw::Excerpt;

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal,)*) => {
        /// The kind of a [`Problem`]. `W1` to `W12`, `ignored` and `refuses-all` are warnings, the
        /// others errors.
        ///
        /// Its text is stable: scripts may compare it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All of them.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$code),*];

            /// The text: `unknown-field`, `W1`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                }
            }
        }
    };
}

codes! {
    /// A file cannot be read, or is no file.
    Unreadable = "unreadable",
    /// There is too much: bytes, files, rules, values.
    TooMuch = "too-much",
    /// The file is not UTF-8, or contains a NUL byte.
    NotText = "not-text",
    /// The file is not TOML; of Envoy's files, not YAML.
    Syntax = "syntax",
    /// A field that there is not.
    UnknownField = "unknown-field",
    /// A required field is missing.
    MissingField = "missing-field",
    /// A value of another type than the field's.
    WrongType = "wrong-type",
    /// A number, a list or a table is too small or too large.
    OutOfRange = "out-of-range",
    /// A text that is none of those that the field takes.
    BadText = "bad-text",
    /// A limit that cannot be read, or cannot be kept exactly.
    BadLimit = "bad-limit",
    /// A value that is well-formed and has no meaning here.
    BadValue = "bad-value",
    /// Fields that do not fit together.
    Unfit = "unfit",
    /// A name that two things have.
    NameTwice = "name-twice",
    /// A name that no rule has.
    UnknownRule = "unknown-rule",
    /// Rules that replace one another.
    Circle = "circle",
    /// A list that there is not.
    UnknownList = "unknown-list",
    /// A store that there is not.
    UnknownStore = "unknown-store",
    /// An entry of a list that cannot be what it is used for.
    BadEntry = "bad-entry",
    /// A feature of Envoy's files that there is not here.
    Unsupported = "unsupported",
    /// A mistake of the parser's own: please report it.
    Internal = "internal",
    /// Only values that a client chooses tell keys apart: a new value each time is never limited.
    W1 = "W1",
    /// No rule concerns every request: what no rule concerns is admitted.
    W2 = "W2",
    /// A rule that is never asked.
    W3 = "W3",
    /// A tier that no request reaches.
    W4 = "W4",
    /// A fixed window of more than an hour.
    W5 = "W5",
    /// A cost that the client names itself.
    W6 = "W6",
    /// A sliding log that may take more than 1 GiB.
    W7 = "W7",
    /// A `forget` that was left in the file.
    W8 = "W8",
    /// A rule that replaces a block.
    W9 = "W9",
    /// A sliding log that charges by status.
    W10 = "W10",
    /// A rule that a listener cannot keep: [`unserved`](crate::unserved).
    W11 = "W11",
    /// A rule with limits that never refuses: each request costs 0.
    W12 = "W12",
    /// A field of Envoy's files that changes nothing where it stands.
    Ignored = "ignored",
    /// A limit of Envoy's files without a number: it is 0.
    RefusesAll = "refuses-all",
}

impl Code {
    /// Whether it is a warning.
    #[must_use]
    pub fn is_warning(self) -> bool {
        self >= Self::W1
    }

    /// The section of the documentation about this kind of mistake.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_rules_file::Code;
    ///
    /// assert_eq!(Code::UnknownField.page(), "docs/reference/rules.md#fields");
    /// ```
    #[must_use]
    pub fn page(self) -> &'static str {
        match self {
            Self::UnknownField | Self::MissingField | Self::WrongType => "docs/reference/rules.md#fields",
            Self::BadText | Self::BadLimit | Self::BadValue | Self::BadEntry => {
                "docs/reference/rules.md#values"
            }
            Self::OutOfRange | Self::TooMuch => "docs/reference/rules.md#bounds",
            Self::Unsupported | Self::Ignored | Self::RefusesAll => {
                "docs/reference/envoy.md#files-theirs-and-here"
            }
            code if code.is_warning() => "docs/reference/rules.md#warnings",
            _ => "docs/reference/rules.md#errors",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A mistake in a rules file, with its position and a hint.
///
/// Its display is the drawing without colours, with an excerpt of the file. Its serialization is
/// the machine-readable form.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\n[[rule]]\nname = \"all\"\nkye = \"everyone\"\nlimits = \"10/s\"\n";
/// let reading = read("rules.toml", &Memory::new("rules.toml", text));
/// let problem = &reading.problems()[0];
/// assert_eq!((problem.line, problem.column, problem.len), (4, 1, 3));
/// assert_eq!(problem.code.as_str(), "unknown-field");
/// assert_eq!(problem.hint.as_deref(), Some("did you mean `key`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The file, as it was named.
    pub file: Box<str>,
    /// The line, from 1. 0: the problem has no position in the file.
    pub line: usize,
    /// The column in characters, from 1; 0 with the line.
    pub column: usize,
    /// The number of wrong characters in the line.
    pub len: usize,
    /// The kind.
    pub code: Code,
    /// The mistake.
    pub message: Box<str>,
    /// What to write instead.
    pub hint: Option<Box<str>>,
    /// The other parts of the files that are wrong together with this one: those of a circle.
    #[serde(skip_serializing_if = "<[ProblemPart]>::is_empty")]
    pub also: Box<[ProblemPart]>,
    /// What the drawing shows of the file.
    #[serde(skip)]
    pub(super) excerpt: Option<Excerpt>,
}

/// A part of a file that a [`Problem`] shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProblemPart {
    /// The file, as it was named.
    pub file: Box<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The number of characters in the line.
    pub len: usize,
    /// What the drawing shows of the file.
    #[serde(skip)]
    pub(super) excerpt: Option<Excerpt>,
}

impl Problem {
    /// One without an excerpt, in characters of a line.
    pub(crate) fn at(
        (file, line, column): (&str, usize, usize),
        code: Code,
        message: String,
        hint: Option<String>,
    ) -> Self {
        let (file, message, hint) = (file.into(), message.into(), hint.map(Into::into));
        Self { file, line, column, len: 0, code, message, hint, also: Box::default(), excerpt: None }
    }

    /// Whether it is a warning: the file can be used.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.code.is_warning()
    }
}
