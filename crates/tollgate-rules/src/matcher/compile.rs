//! From rules as data to compiled ones.

use std::collections::{BTreeSet, HashMap};

use tollgate::spelling::{Spelling, cookie, credentials, decode, lower, respell, trim};

use super::CompileError;
use super::condition::{All, Paths, Test, Wanted};
use super::pattern::Pattern;
use super::rule::{Compiled, CompiledCost, CompiledTier, Generosity, Part, Replaced};
use super::values::{Networks, Texts};
use crate::address::canonical_network;
use crate::request::{AUTHORIZATION, CREDENTIALS, Form, HOST, METHOD, Names, Source};
use crate::rule::{Attribute, Condition, Conditions, Cost, Key, Limits, Replaces, Rule, Rules, Transform};

/// Compiles rules, and numbers the parameters and cookies that they name.
pub(super) fn compile(rules: &Rules) -> Result<(Vec<Compiled>, Names), CompileError> {
    if u32::try_from(rules.rules.len()).is_err() {
        return Err(CompileError::TooMany);
    }
    let bits = rules.clients.ipv6_prefix;
    if !(1..=128).contains(&bits) {
        return Err(CompileError::Ipv6Prefix { bits });
    }
    let mut by_name = HashMap::new();
    for (rule, number) in rules.rules.iter().zip(0_u32..) {
        if by_name.insert(&*rule.name, number).is_some() {
            return Err(CompileError::NameTwice { name: rule.name.clone() });
        }
    }
    let form = if rules.fold_paths { Form::Folded } else { Form::Exact };
    let mut names = Names::default();
    let mut compiled = Vec::with_capacity(rules.rules.len());
    for rule in &rules.rules {
        compiled.push(Compiler { rule, form, names: &mut names }.rule(&by_name)?);
    }
    Ok((compiled, names))
}

struct Compiler<'a> {
    rule: &'a Rule,
    form: Form,
    names: &'a mut Names,
}

impl Compiler<'_> {
    fn rule(&mut self, by_name: &HashMap<&str, u32>) -> Result<Compiled, CompileError> {
        let rule = self.rule;
        let key = match &rule.key {
            Key::Everyone => Vec::new(),
            Key::Attributes(parts) if parts.is_empty() => {
                return Err(CompileError::EmptyKey { rule: rule.name.clone() });
            }
            Key::Attributes(parts) => {
                let mut key = Vec::new();
                for attribute in parts {
                    if *attribute.plain() == Attribute::Client && *attribute != Attribute::Client {
                        return Err(self.misplaced(attribute));
                    }
                    let (source, spellings) = (self.source(attribute), one_spelling(attribute));
                    key.push(Part { attribute: attribute.clone(), source, spellings });
                }
                key
            }
        };
        let mut tiers = Vec::new();
        for tier in &rule.tiers {
            let generosity = Generosity::of(&tier.limits);
            tiers.push(CompiledTier {
                name: tier.name.clone(),
                applies: self.any(&tier.applies)?,
                generosity,
            });
        }
        let named_tier = match &rule.tier_named_by {
            None => None,
            Some(attribute @ Attribute::Label(_)) => {
                let names = rule.tiers.iter().map(|tier| tier.name.as_bytes().into());
                Some((self.source(attribute), names.zip(0..).collect()))
            }
            Some(attribute) => return Err(self.misplaced(attribute)),
        };
        let mut all_limits = rule.tiers.iter().map(|tier| &tier.limits).chain([&rule.limits]);
        Ok(Compiled {
            name: rule.name.clone(),
            mode: rule.mode,
            is_unlimited: all_limits.all(|limits| *limits == Limits::Unlimited),
            is_per_request: rule.limits == Limits::PerRequest,
            applies: self.any(&rule.applies)?,
            except: self.any(&rule.except)?,
            key,
            missing: rule.missing,
            tiers,
            named_tier,
            generosity: Generosity::of(&rule.limits),
            cost: self.cost()?,
            replaces: self.replaces(by_name)?,
            turn: 0,
        })
    }

    fn cost(&mut self) -> Result<CompiledCost, CompileError> {
        use Attribute::{Cookie, Entry, Header, Label, Query};
        Ok(match &self.rule.cost {
            Cost::Fixed(cost) => CompiledCost::Fixed(*cost),
            Cost::From { attribute, default } => match attribute {
                Header(_) | Cookie(_) | Query(_) | Label(_) | Entry(_) => {
                    CompiledCost::From { source: self.source(attribute), default: *default }
                }
                _ => return Err(self.misplaced(attribute)),
            },
            Cost::Cases(cases) => {
                let case = |case: &crate::rule::CostCase| Ok((self.any(&case.applies)?, case.is));
                CompiledCost::Cases(cases.iter().map(case).collect::<Result<_, _>>()?)
            }
        })
    }

    fn replaces(&self, by_name: &HashMap<&str, u32>) -> Result<Replaced, CompileError> {
        Ok(match &self.rule.replaces {
            Replaces::None => Replaced::None,
            Replaces::All => Replaced::All,
            Replaces::Named(names) => {
                let mut named = Vec::new();
                for name in names {
                    let unknown =
                        || CompileError::UnknownRule { rule: self.rule.name.clone(), named: name.clone() };
                    named.push(*by_name.get(&**name).ok_or_else(unknown)?);
                }
                named.sort_unstable();
                named.dedup();
                if named.is_empty() { Replaced::None } else { Replaced::Named(named) }
            }
        })
    }

    fn any(&mut self, alternatives: &[Conditions]) -> Result<Vec<All>, CompileError> {
        let mut any = Vec::new();
        for Conditions(conditions) in alternatives {
            let tests = conditions.iter().map(|condition| self.test(condition));
            any.push(All(tests.collect::<Result<_, _>>()?));
        }
        Ok(any)
    }

    fn test(&mut self, Condition { attribute, values }: &Condition) -> Result<Test, CompileError> {
        use Attribute::{Capture, Client, Host, Method, Path, Route, Transformed};
        let any = values.any || values.texts.iter().any(|text| &**text == "*");
        let texts = || values.texts.iter().map(|text| &**text).filter(|text| *text != "*");
        for text in texts() {
            attribute.check_value(text).map_err(|wrong| self.wrong(attribute, wrong.message))?;
        }
        let is_text = !matches!(attribute, Client | Path);
        if *attribute == Client && texts().next().is_some() {
            return Err(self.wrong(attribute, "texts: a client is of networks"));
        }
        if *attribute != Client && !values.networks.is_empty() {
            return Err(self.wrong(attribute, "networks: they are of clients"));
        }
        if (!is_text || *attribute == Method) && !values.digests.is_empty() {
            return Err(self.wrong(attribute, "digests"));
        }
        let wanted = match attribute {
            Route | Capture(_) | Transformed(..) => return Err(self.misplaced(attribute)),
            Path => Wanted::Paths(Paths::new(any, texts().map(Pattern::new).collect(), self.form)),
            Client => {
                let mut networks = Networks::default();
                values.networks.iter().for_each(|network| *networks.entry(canonical_network(*network)) = ());
                Wanted::Clients { any, networks }
            }
            _ => {
                let folded = |text: &str| match attribute {
                    Method => text.to_ascii_uppercase().into_bytes(),
                    Host => text.to_ascii_lowercase().into_bytes(),
                    _ => text.as_bytes().to_vec(),
                };
                let has_scheme = has_scheme(attribute);
                let exact = |text: &str| -> Box<[u8]> {
                    let mut text = folded(text);
                    if has_scheme {
                        respell(&mut text, 0, credentials);
                    }
                    text.into()
                };
                let is_glob = |text: &&str| text.contains('*');
                let mut wanted = Texts {
                    any,
                    exact: texts().filter(|text| !is_glob(text)).map(exact).collect(),
                    globs: texts().filter(is_glob).map(|text| folded(text).into()).collect(),
                    digests: values.digests.clone(),
                    restricting: BTreeSet::new(),
                    has_scheme,
                };
                // Servers do the work of a GET for HEAD.
                if *attribute == Method && wanted.contains(b"GET") {
                    wanted.restricting.insert(b"HEAD"[..].into());
                }
                Wanted::Texts(wanted)
            }
        };
        let source = match attribute {
            // A condition sees every spelling; a key has one, which it makes itself.
            attribute if has_scheme(attribute) => self.want(Source::Read(AUTHORIZATION)),
            attribute => self.source(attribute),
        };
        Ok(Test { attribute: attribute.clone(), source, wanted })
    }

    fn source(&mut self, attribute: &Attribute) -> Source {
        let source = match attribute.plain() {
            Attribute::Method => Source::Read(METHOD),
            Attribute::Host => Source::Read(HOST),
            Attribute::Path => Source::Path,
            Attribute::Route => Source::Route,
            Attribute::Client => Source::Client,
            Attribute::Header(name) => Source::Header(name.to_ascii_lowercase().into()),
            Attribute::Cookie(name) => Source::Read(self.names.cookie(name)),
            Attribute::Query(name) => Source::Read(self.names.query(name)),
            Attribute::Label(name) => Source::Label(name.clone()),
            Attribute::Domain => Source::Domain,
            Attribute::Entry(name) => Source::Entry(name.clone()),
            Attribute::Capture(name) => Source::Capture(name.clone()),
            Attribute::Transformed(..) => unreachable!("a plain attribute is not transformed"),
        };
        self.want(source)
    }

    fn want(&mut self, source: Source) -> Source {
        self.names.want(&source);
        source
    }

    fn misplaced(&self, attribute: &Attribute) -> CompileError {
        CompileError::Attribute { rule: self.rule.name.clone(), attribute: attribute.to_string().into() }
    }

    fn wrong(&self, attribute: &Attribute, message: impl Into<Box<str>>) -> CompileError {
        CompileError::Value {
            rule: self.rule.name.clone(),
            attribute: attribute.to_string().into(),
            message: message.into(),
        }
    }
}

/// Whether the values of an attribute are credentials, which begin with a scheme.
fn has_scheme(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Header(name) if name.eq_ignore_ascii_case(CREDENTIALS))
}

/// What makes one spelling of those of an attribute's values.
fn one_spelling(attribute: &Attribute) -> Box<[Spelling]> {
    let mut spellings: Vec<Spelling> = Vec::new();
    let mut inner = attribute;
    while let Attribute::Transformed(transform, within) = inner {
        spellings.push(match transform {
            Transform::Lower => lower,
            Transform::Trim => trim,
            Transform::Credentials => credentials,
            Transform::Decoded => decode,
        });
        inner = within;
    }
    match inner {
        inner if has_scheme(inner) => spellings.push(credentials),
        Attribute::Cookie(_) => spellings.push(cookie),
        _ => {}
    }
    // The innermost is the first.
    spellings.reverse();
    spellings.into()
}
