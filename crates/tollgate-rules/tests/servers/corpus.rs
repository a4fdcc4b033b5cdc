//! Spellings of one credential, cookie, header, host or path.

use tollgate_rules::{Found, Matcher, PlainRequest};
use tollgate_rules_file::{Memory, read};

/// What a spelling is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The credential `Bearer secret`.
    Token,
    /// The cookie `s` of `abc`.
    Cookie,
    /// The header `X-Api-Key` of `abc`.
    Key,
    /// The host `a.test`.
    Host,
    /// The path of this name.
    Path(&'static str),
}

/// A spelling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    /// As the page writes it.
    pub(super) name: &'static str,
    pub(super) of: Of,
    /// A path, a host, or the value of a header.
    text: &'static str,
    /// The name of that header.
    header: &'static str,
}

const fn spelling(of: Of, name: &'static str, header: &'static str, text: &'static str) -> Spelling {
    Spelling { name, of, text, header }
}

const fn token(text: &'static str) -> Spelling {
    spelling(Of::Token, text, "Authorization", text)
}

const fn host(text: &'static str) -> Spelling {
    spelling(Of::Host, text, "", text)
}

const fn login(text: &'static str) -> Spelling {
    spelling(Of::Path("login"), text, "", text)
}

const fn cookie(text: &'static str) -> Spelling {
    spelling(Of::Cookie, text, "Cookie", text)
}

/// In the order of the page.
pub(super) const SPELLINGS: [Spelling; 35] = [
    token("bEARER secret"),
    token("Bearer   secret"),
    cookie("s=\"abc\""),
    cookie("s=\"\\141bc\""),
    cookie("s=%61bc"),
    cookie("s=\"%61bc\""),
    spelling(Of::Key, "X_Api_Key", "X_Api_Key", "abc"),
    spelling(Of::Key, "X.Api.Key", "X.Api.Key", "abc"),
    host("a.test:80"),
    host("A.TEST."),
    host("a.test.."),
    host("a.test:x"),
    host("[a.test]"),
    host("[a.test"),
    host("u@a.test"),
    host("a%2Etest"),
    login("/Login"),
    login("/login/"),
    login("//login"),
    login("/x/../login"),
    login("/x/..%2Flogin"),
    login("/login;x"),
    login("/login%0A"),
    login("/login."),
    login("/login%20"),
    login("/%256Cogin"),
    login("/log%C4%B0n"),
    spelling(Of::Path("token"), "/to%E2%84%AAen", "", "/to%E2%84%AAen"),
    // Those that the rules do not read.
    login("/%25256Cogin"),
    login("/login%00"),
    login("/%u006Cogin"),
    login("/%C1%ACogin"),
    login("/login.json"),
    cookie("s=abc x"),
    cookie("%73=abc"),
];

impl Spelling {
    /// The plain spelling of the same.
    pub(super) fn plain(self) -> Self {
        match self.of {
            Of::Token => token("Bearer secret"),
            Of::Cookie => cookie("s=abc"),
            Of::Key => spelling(Of::Key, "", "X-Api-Key", "abc"),
            Of::Host => host("a.test"),
            Of::Path("token") => spelling(self.of, "", "", "/token"),
            Of::Path(_) => login("/login"),
        }
    }

    fn target(self) -> &'static str {
        if let Of::Path(_) = self.of { self.text } else { "/login" }
    }

    fn host(self) -> &'static str {
        if self.of == Of::Host { self.text } else { "a.test" }
    }

    /// The request, as it is sent.
    pub(super) fn sent(self) -> String {
        let (target, host) = (self.target(), self.host());
        let header = match self.header {
            "" => String::new(),
            name => format!("{name}: {}\r\n", self.text),
        };
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{header}\r\n")
    }

    /// Whether this is what a server that said `answer` has read.
    pub(super) fn is_in(self, answer: &str) -> bool {
        let parts: Vec<&str> = answer.trim().split('|').collect();
        let [route, token, cookie, key] = parts[..] else { panic!("{answer:?}") };
        match self.of {
            Of::Token => token == "secret",
            Of::Cookie => cookie == "abc",
            Of::Key => key == "abc",
            Of::Host => route == "login",
            Of::Path(path) => route == path,
        }
    }

    /// Whether the rules read it as they read the plain spelling.
    pub(super) fn is_read_by_rules(self) -> bool {
        let rule = match self.of {
            Of::Token => "key = 'header.authorization'",
            Of::Cookie => "key = 'cookie.s'",
            Of::Key => "key = 'header.x-api-key'",
            Of::Host => "key = 'everyone', match.host = 'a.test'",
            Of::Path("token") => "key = 'everyone', match.path = '/token'",
            Of::Path(_) => "key = 'everyone', match.path = '/login'",
        };
        let text =
            format!("version = 1\nrule = [{{ name = 'r', limits = '1/h', missing = 'pass', {rule} }}]");
        let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
        let matcher = Matcher::new(&rules).unwrap();
        let key = |spelling: Self| {
            let mut found = Found::default();
            matcher.find(&spelling.request(), &mut found);
            found.concerned().first().map(|concerned| found.key(concerned).to_owned())
        };
        let plain = key(self.plain());
        assert!(plain.is_some(), "{self:?}");
        key(self) == plain
    }

    fn request(self) -> PlainRequest {
        let header = (self.header.to_owned(), self.text.as_bytes().to_vec());
        PlainRequest {
            method: Some("GET".into()),
            host: Some(self.host().into()),
            target: Some(self.target().into()),
            headers: if self.header.is_empty() { Vec::new() } else { vec![header] },
            ..PlainRequest::default()
        }
    }
}
