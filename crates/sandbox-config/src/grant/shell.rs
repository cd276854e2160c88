//! Shell rules: patterns over *tokens*, never over characters, so that `git log` cannot be
//! confused with `git logx` and a space inside an argument cannot start a new word.
//!
//! Pattern language: words are separated by blanks; quotes group as in sh; `(a|b)` is one token
//! that is either; `*` is one token of any text, and as the last token any rest, also none.
//! Everything else is literal (`*.md` is the literal four characters).
//!
//! A rule that blocks or asks reads every `*` as any number of tokens, also none, so that one rule
//! names an option at any position: `find * -exec *`. A rule that allows does not: it would allow
//! more than its text shows.

use std::sync::Arc;

use crate::grant::verdict::Verdict;
use crate::syntax::text::{ConfigOrigin, Layer, SourceLocation};

/// The pattern of one word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternToken {
    Literal(String),
    OneOf(Vec<String>),
    Any,
}

impl PatternToken {
    fn covers(&self, other: &PatternToken) -> bool {
        match (self, other) {
            (PatternToken::Any, _) => true,
            (PatternToken::Literal(_) | PatternToken::OneOf(_), PatternToken::Any) => false,
            (PatternToken::Literal(own), PatternToken::Literal(text)) => own == text,
            (PatternToken::Literal(own), PatternToken::OneOf(texts)) => {
                texts.iter().all(|text| text == own)
            }
            (PatternToken::OneOf(own), PatternToken::Literal(text)) => own.contains(text),
            (PatternToken::OneOf(own), PatternToken::OneOf(texts)) => {
                texts.iter().all(|text| own.contains(text))
            }
        }
    }
}

/// A parsed pattern.
///
/// ```
/// use sandbox_config::CommandPattern;
/// let pattern = CommandPattern::parse("git (log|show) *").unwrap();
/// let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
/// assert!(pattern.matches(&words("git log")));
/// assert!(pattern.matches(&words("git show -1 HEAD")));
/// assert!(!pattern.matches(&words("git logx")));
/// assert!(!pattern.matches(&words("git -C /x log")));
/// assert!(CommandPattern::parse("").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    text: String,
    tokens: Vec<PatternToken>,
    /// The pattern ends in `*`: any rest, including none.
    open: bool,
}

/// Why a pattern cannot be read.
///
/// ```
/// use sandbox_config::CommandPattern;
/// assert_eq!(
///     CommandPattern::parse("git (log|").unwrap_err().to_string(),
///     "`(` without `)`",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CommandPatternError(String);

impl CommandPattern {
    /// Read a pattern.
    ///
    /// # Errors
    /// The pattern is empty, a quote or a parenthesis is open, or an alternative is empty.
    pub fn parse(text: &str) -> Result<CommandPattern, CommandPatternError> {
        let words = split(text).map_err(CommandPatternError)?;
        let mut tokens = Vec::new();
        for word in words {
            tokens.push(match word {
                CommandWord { text, quoted: true } => PatternToken::Literal(text),
                CommandWord { text, .. } if text == "*" => PatternToken::Any,
                CommandWord { text, .. } if text.starts_with('(') => {
                    PatternToken::OneOf(alternatives(&text)?)
                }
                CommandWord { text, .. } => PatternToken::Literal(text),
            });
        }
        let open = tokens.last() == Some(&PatternToken::Any);
        if open {
            tokens.pop();
        }
        if tokens.is_empty() && !open {
            return Err(CommandPatternError("the pattern is empty".into()));
        }
        Ok(CommandPattern {
            text: text.to_owned(),
            tokens,
            open,
        })
    }

    sandbox_names::getters! {
        /// As written.
        pub text: &str = &text;
        /// Returns `true` if it ends in `*`: any rest, also none.
        pub(crate) is_open: bool = open;
    }

    /// Returns the possible words at a position: `None`, where the pattern has no more words of its
    /// own; an empty list, where it may be any.
    pub(crate) fn word(&self, index: usize) -> Option<Vec<&str>> {
        Some(match self.tokens.get(index)? {
            PatternToken::Literal(text) => vec![text],
            PatternToken::OneOf(texts) => texts.iter().map(String::as_str).collect(),
            PatternToken::Any => Vec::new(),
        })
    }

    /// Returns the pattern that matches exactly these words; `None` if a word cannot be written in
    /// a pattern.
    ///
    /// ```
    /// use sandbox_config::CommandPattern;
    /// let words = ["npm".to_owned(), "test".to_owned(), "a b".to_owned(), "*".to_owned()];
    /// let exact = CommandPattern::of_words(&words).unwrap();
    /// assert_eq!(exact.text(), r#"npm test "a b" "*""#);
    /// assert!(exact.matches(&words));
    /// ```
    #[must_use]
    pub fn of_words(words: &[String]) -> Option<CommandPattern> {
        let quoted = words.iter().map(|word| {
            let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                return Some(word.clone());
            }
            let quote = ['"', '\'']
                .into_iter()
                .find(|quote| !word.contains(*quote))?;
            Some(format!("{quote}{word}{quote}"))
        });
        let quoted: Option<Vec<String>> = quoted.collect();
        let pattern = CommandPattern::parse(&quoted?.join(" ")).ok()?;
        pattern.matches(words).then_some(pattern)
    }

    /// Returns the tokens as a rule with this verdict reads them; `None` is any number of words.
    fn items(&self, verdict: Verdict) -> impl Iterator<Item = Option<&PatternToken>> {
        let own = self.tokens.iter().map(move |token| {
            let many = *token == PatternToken::Any && verdict != Verdict::Allow;
            (!many).then_some(token)
        });
        own.chain(self.open.then_some(None))
    }

    /// Returns whether a command, split into words, matches in a rule that allows: each `*` between
    /// words is one word. No words match nothing.
    #[must_use]
    pub fn matches(&self, words: &[String]) -> bool {
        self.matches_in(Verdict::Allow, words)
    }

    /// Returns whether a command matches in a rule with this verdict. In a rule that blocks or asks
    /// each `*` is any number of words.
    ///
    /// ```
    /// use sandbox_config::{CommandPattern, Verdict};
    /// let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    /// let exec = CommandPattern::parse("find * -exec *").unwrap();
    /// assert!(exec.matches_in(Verdict::Block, &words("find . -name x -exec rm {} +")));
    /// assert!(exec.matches_in(Verdict::Ask, &words("find -exec rm {} +")));
    /// assert!(!exec.matches_in(Verdict::Allow, &words("find . -name x -exec rm {} +")));
    /// ```
    #[must_use]
    pub fn matches_in(&self, verdict: Verdict, words: &[String]) -> bool {
        let items: Vec<_> = self.items(verdict).collect();
        !words.is_empty()
            && includes(&items, words, |token, word| {
                token.is_some_and(|token| match token {
                    PatternToken::Literal(text) => text == word,
                    PatternToken::OneOf(texts) => texts.contains(word),
                    PatternToken::Any => true,
                })
            })
    }
}

/// Returns whether the items, `None` of which is any number of them, are all of a list. A mismatch
/// goes back to the last `None` only, so the work is at most the product of both lengths.
fn includes<'t, T>(
    items: &[Option<&'t PatternToken>],
    list: &[T],
    equal: impl Fn(Option<&'t PatternToken>, &T) -> bool,
) -> bool {
    let (mut item, mut at) = (0, 0);
    let mut last_many = None;
    while at < list.len() {
        if items.get(item).is_some_and(Option::is_none) {
            last_many = Some((item, at));
            item += 1;
        } else if item < items.len() && equal(items[item], &list[at]) {
            item += 1;
            at += 1;
        } else if let Some((many, from)) = last_many {
            last_many = Some((many, from + 1));
            item = many + 1;
            at = from + 1;
        } else {
            return false;
        }
    }
    items[item..].iter().all(Option::is_none)
}

/// A rule: pattern, verdict, and the message to the model when it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandRule {
    pub(crate) pattern: CommandPattern,
    pub(crate) verdict: Verdict,
    pub(crate) why: Option<String>,
    pub(crate) origin: ConfigOrigin,
}

impl CommandRule {
    /// Returns whether the rule speaks about a command.
    pub(crate) fn matches(&self, words: &[String]) -> bool {
        self.pattern.matches_in(self.verdict, words)
    }

    fn to_match(&self) -> RuleMatch {
        RuleMatch {
            verdict: self.verdict,
            rule: Some(self.pattern.text.clone()),
            why: self.why.clone(),
            origin: self.origin.clone(),
        }
    }

    /// Returns `false` if no command matches both, as far as the programs in front show it.
    pub(crate) fn can_meet(&self, other: &CommandRule) -> bool {
        let first = |rule: &CommandRule| rule.pattern.items(rule.verdict).next().flatten().cloned();
        match (first(self), first(other)) {
            (Some(PatternToken::OneOf(own)), Some(PatternToken::OneOf(others))) => {
                own.iter().any(|one| others.contains(one))
            }
            (Some(own), Some(other)) => own.covers(&other) || other.covers(&own),
            (None, _) | (_, None) => true,
        }
    }

    /// Returns whether it matches everything that `other` matches, as far as the patterns show it.
    pub(crate) fn covers(&self, other: &CommandRule) -> bool {
        let own: Vec<_> = self.pattern.items(self.verdict).collect();
        let others: Vec<_> = other.pattern.items(other.verdict).collect();
        includes(&own, &others, |own, other| match (own, other) {
            (Some(own), Some(other)) => own.covers(other),
            (Some(_) | None, None) | (None, Some(_)) => false,
        })
    }
}

/// The rules of one file, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleList {
    /// Shared: every grant below the one that declares the list holds this list.
    pub(crate) rules: Arc<[CommandRule]>,
    /// The verdict if no rule matches; `None` in a worker's list: the project's answer holds.
    pub(crate) default: Option<Verdict>,
    pub(crate) programs: ProgramLists,
    /// Location of `shell`.
    pub(crate) origin: ConfigOrigin,
}

/// `shell.allow` and `shell.deny` of one file: the programs that may be started, independent of
/// rules. Every file from the project down is asked, so a child may start a program that all allow
/// and none denies.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "shell: { allow: [git, /usr/bin/make], deny: [rm] }\n").unwrap();
/// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// let shell = project.ceiling().shell().unwrap();
/// let programs = shell.programs().next().unwrap();
/// assert_eq!(programs.allow().unwrap(), ["git", "/usr/bin/make"]);
/// assert_eq!(programs.deny(), ["rm"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramLists {
    pub(crate) allow: Option<Vec<String>>,
    pub(crate) deny: Vec<String>,
    pub(crate) allow_at: SourceLocation,
    pub(crate) deny_at: SourceLocation,
}

impl ProgramLists {
    sandbox_names::getters! {
        /// Returns names or absolute paths of the only programs; `None`: all but those denied.
        pub allow: Option<&[String]> = allow.as_deref();
        /// Names or absolute paths of programs that never run.
        pub deny: &[String] = &deny;
        /// Returns the location of `allow`.
        pub allow_at: Option<&ConfigOrigin> = allow_at.origin();
        /// Returns the location of `deny`.
        pub deny_at: Option<&ConfigOrigin> = deny_at.origin();
    }

    fn say_something(&self) -> bool {
        self.allow.is_some() || !self.deny.is_empty()
    }
}

/// The rules that a grant holds: the project's, and each declaration's on the way down. Every
/// list is asked and the strictest answer holds, so a list can only tighten.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), r#"
/// # shell:
/// #   rules:
/// #     - { pattern: "grep *", approval: ask }
/// #     - { pattern: "rm *", approval: blocked, why: use delete_file }
/// # "#).unwrap();
/// use sandbox_config::{load, Sources, Verdict};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let shell = project.ceiling().shell().unwrap();
/// let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
/// assert_eq!(shell.decide(&words("grep -r x")).verdict(), Verdict::Ask);
/// assert_eq!(shell.decide(&words("rm x")).why(), Some("use delete_file"));
/// assert_eq!(shell.decide(&words("curl x")).verdict(), Verdict::Block);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellRules {
    pub(crate) lists: Vec<RuleList>,
    /// The user's rules for this project: they answer calls that the lists would ask about.
    pub(crate) personal: Arc<[CommandRule]>,
}

impl ShellRules {
    /// Decides about a command. In each list: a matching blocked rule, else the first match, else
    /// the list's default. If that is a question, a rule of the user answers it.
    pub fn decide(&self, words: &[String]) -> RuleMatch {
        let answers = self.lists.iter().filter_map(|list| list.decide(words));
        let decided = strictest(answers).unwrap_or(RuleMatch {
            verdict: Verdict::Block,
            rule: None,
            why: None,
            origin: ConfigOrigin::built_in(),
        });
        self.answered(words, decided)
    }

    /// Turns an *ask* into the *allow* of the person's rule that matches, and nothing else.
    fn answered(&self, words: &[String], decided: RuleMatch) -> RuleMatch {
        let own = || self.personal.iter().find(|rule| rule.matches(words));
        match decided.verdict {
            Verdict::Allow | Verdict::Block => decided,
            Verdict::Ask => own().map_or(decided, CommandRule::to_match),
        }
    }

    /// As [`ShellRules::decide`] with rules alone: `None` if no rule matches.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
    /// #     "shell: { default: ask, rules: [{ pattern: 'rm *', approval: blocked }] }\n").unwrap();
    /// use sandbox_config::{load, Sources, Verdict};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let shell = project.ceiling().shell().unwrap();
    /// assert_eq!(shell.decide_by_rule(&["rm".to_owned()]).unwrap().verdict(), Verdict::Block);
    /// assert!(shell.decide_by_rule(&["ls".to_owned()]).is_none());
    /// ```
    pub fn decide_by_rule(&self, words: &[String]) -> Option<RuleMatch> {
        let answers = self.lists.iter().filter_map(|list| list.decide(words));
        let decided = strictest(answers.filter(|answer| answer.rule.is_some()))?;
        Some(self.answered(words, decided))
    }

    /// The lists of programs, from the project down; those that say nothing are left out.
    pub fn programs(&self) -> impl Iterator<Item = &ProgramLists> {
        self.lists
            .iter()
            .map(|list| &list.programs)
            .filter(|programs| programs.say_something())
    }

    /// Returns the user's rules for this project, with their locations.
    pub fn personal_rules(&self) -> impl Iterator<Item = (&str, &ConfigOrigin)> {
        let rules = self.personal.iter();
        rules.map(|rule| (rule.pattern.text(), &rule.origin))
    }

    /// Every rule of the project and its workers: list by list from the project down, in file
    /// order.
    pub fn rules(&self) -> impl Iterator<Item = (&str, Verdict, &ConfigOrigin)> {
        self.lists.iter().flat_map(|list| {
            list.rules
                .iter()
                .map(|rule| (rule.pattern.text(), rule.verdict, &rule.origin))
        })
    }
}

/// Of several answers the strictest. Of equal ones a rule says more than a default, an earlier list
/// more than a later.
fn strictest(answers: impl Iterator<Item = RuleMatch>) -> Option<RuleMatch> {
    answers.reduce(|so_far, answer| {
        let stricter = answer.verdict > so_far.verdict
            || (answer.verdict == so_far.verdict && so_far.rule.is_none() && answer.rule.is_some());
        if stricter { answer } else { so_far }
    })
}

impl RuleList {
    fn decide(&self, words: &[String]) -> Option<RuleMatch> {
        let mut matching = self.rules.iter().filter(|rule| rule.matches(words));
        let first = matching.clone().next();
        let blocked = matching.find(|rule| rule.verdict == Verdict::Block);
        match (blocked.or(first), self.default) {
            (Some(rule), _) => Some(rule.to_match()),
            (None, Some(verdict)) => Some(RuleMatch {
                verdict,
                rule: None,
                why: None,
                origin: self.origin.clone(),
            }),
            (None, None) => None,
        }
    }
}

/// The answer of the shell rules, with the rule that gave it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "shell:\n  rules:\n    - { pattern: \"wc *\", approval: ask }\n").unwrap();
/// # let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// let answer = project.ceiling().shell().unwrap().decide(&["wc".to_owned()]);
/// assert_eq!(answer.rule(), Some("wc *"));
/// assert_eq!(answer.origin().to_string(), "golem-forge.config.yaml:3:18");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct RuleMatch {
    verdict: Verdict,
    rule: Option<String>,
    why: Option<String>,
    origin: ConfigOrigin,
}

impl RuleMatch {
    sandbox_names::getters! {
        /// The answer.
        pub verdict: Verdict = verdict;
        /// Returns the pattern that matched; `None` if the default answered.
        pub rule: Option<&str> = rule.as_deref();
        /// The rule's reason, for the model.
        pub why: Option<&str> = why.as_deref();
        /// Returns the location of the rule (or of the `shell` section, for its default).
        pub origin: &ConfigOrigin = &origin;
    }

    /// `true` if a rule of the user for this project answered the question.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        self.verdict == Verdict::Allow && self.origin.layer() == Layer::User
    }
}

struct CommandWord {
    text: String,
    quoted: bool,
}

/// Split as sh splits words, without any expansion: for patterns and for the rules' own examples.
fn split(text: &str) -> Result<Vec<CommandWord>, String> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Ok(words);
        }
        let mut word = CommandWord {
            text: String::new(),
            quoted: false,
        };
        let mut group = false;
        while let Some(c) = chars.next_if(|c| group || !c.is_whitespace()) {
            match c {
                '\'' | '"' if !group => {
                    word.quoted = true;
                    loop {
                        match chars.next() {
                            Some(end) if end == c => break,
                            Some(inner) => word.text.push(inner),
                            None => return Err(format!("`{c}` without its partner")),
                        }
                    }
                }
                other => {
                    group = match other {
                        '(' if word.text.is_empty() => true,
                        ')' => false,
                        _ => group,
                    };
                    word.text.push(other);
                }
            }
        }
        if group {
            return Err("`(` without `)`".into());
        }
        words.push(word);
    }
}

/// The words of an example command.
pub(crate) fn example_words(text: &str) -> Result<Vec<String>, String> {
    Ok(split(text)?.into_iter().map(|word| word.text).collect())
}

fn alternatives(group: &str) -> Result<Vec<String>, CommandPatternError> {
    let inner = group
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or_else(|| CommandPatternError("text after `)`: a group is a whole word".into()))?;
    let list: Vec<String> = inner
        .split('|')
        .map(|word| word.trim().to_owned())
        .collect();
    if list.iter().any(String::is_empty) {
        return Err(CommandPatternError("an alternative is empty".into()));
    }
    if let Some(odd) = list.iter().find(|word| word.contains(['(', ')', ' ', '*'])) {
        return Err(CommandPatternError(format!(
            "`{odd}` in a group: alternatives are single literal words"
        )));
    }
    Ok(list)
}

sandbox_names::display!(CommandPattern = &text);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, command: &str, expected: bool) {
        let words = example_words(command).unwrap();
        let pattern = CommandPattern::parse(pattern).unwrap();
        assert_eq!(
            pattern.matches(&words),
            expected,
            "{pattern} on {command:?}"
        );
    }

    #[test]
    fn tokens_not_characters() {
        for (pattern, command, expected) in [
            ("grep *", "grep", true),
            ("grep *", "grep -r x .", true),
            ("grep *", "grepx", false),
            ("git (log|show|status) *", "git log -1", true),
            ("git (log|show|status) *", "git push", false),
            ("git (log|show|status) *", "git -C /x log", false),
            ("git * log", "git -C log", true),
            ("git * log", "git log", false),
            ("ls", "ls", true),
            ("ls", "ls -l", false),
            ("*", "anything at all", true),
            ("echo 'a b'", "echo 'a b'", true),
            ("echo 'a b'", "echo a b", false),
            ("echo '*'", "echo x", false),
            ("echo '*'", "echo '*'", true),
            ("cat *.md", "cat x.md", false),
        ] {
            check(pattern, command, expected);
        }
    }

    #[test]
    fn no_words_match_nothing() {
        assert!(!CommandPattern::parse("*").unwrap().matches(&[]));
    }

    #[test]
    fn unreadable_patterns_say_why() {
        for (pattern, why) in [
            ("", "the pattern is empty"),
            ("   ", "the pattern is empty"),
            ("git (log", "`(` without `)`"),
            ("git (log|)", "an alternative is empty"),
            ("git (log|show)x", "text after `)`: a group is a whole word"),
            ("echo 'x", "`'` without its partner"),
            (
                "git (log *|show)",
                "`log *` in a group: alternatives are single literal words",
            ),
        ] {
            assert_eq!(CommandPattern::parse(pattern).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn covering_is_matching_whatever_the_other_matches() {
        for (wide, narrow, expected) in [
            ("git *", "git log *", true),
            ("git *", "git", true),
            ("git *", "git *", true),
            ("*", "rm x", true),
            ("git log *", "git *", false),
            ("git", "git *", false),
            ("git (log|show) *", "git log", true),
            ("git (log|show) *", "git (show|log) -1", true),
            ("git (log|show) *", "git (log|push) *", false),
            ("git log *", "git (log|log) x", true),
            ("a * c", "a b c", true),
            ("a b c", "a * c", false),
            ("a * c *", "a b", false),
        ] {
            let allows = |text: &str| rule(text, Verdict::Allow);
            assert_eq!(
                allows(wide).covers(&allows(narrow)),
                expected,
                "{wide} over {narrow}"
            );
        }
        for (wide, narrow, expected) in [
            ("find * -exec *", "find . -exec *", true),
            ("find * -exec *", "find -a -b -exec x", true),
            ("find * -exec *", "find *", false),
            ("a * c", "a c", true),
            ("a * c", "a * * c", true),
            ("a * c", "a * d", false),
        ] {
            assert_eq!(
                rule(wide, Verdict::Block).covers(&rule(narrow, Verdict::Allow)),
                expected,
                "{wide} over {narrow}"
            );
        }
    }

    fn rule(text: &str, verdict: Verdict) -> CommandRule {
        CommandRule {
            pattern: CommandPattern::parse(text).unwrap(),
            verdict,
            why: None,
            origin: ConfigOrigin::built_in(),
        }
    }

    fn verdict() -> impl proptest::strategy::Strategy<Value = Verdict> {
        proptest::sample::select(vec![Verdict::Allow, Verdict::Ask, Verdict::Block])
    }

    /// The meaning of a pattern, as slowly as it can be said.
    fn matches_by_definition(items: &[Option<&PatternToken>], words: &[String]) -> bool {
        match (items.split_first(), words.split_first()) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some((None, rest)), None) => matches_by_definition(rest, words),
            (Some((None, rest)), Some((_, behind))) => {
                matches_by_definition(rest, words) || matches_by_definition(items, behind)
            }
            (Some((Some(_), _)), None) => false,
            (Some((Some(token), rest)), Some((word, behind))) => {
                token.covers(&PatternToken::Literal(word.clone()))
                    && matches_by_definition(rest, behind)
            }
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn who_covers_matches_whatever_the_covered_matches(
            wide in "(a|b|\\(a\\|b\\)|\\*)( (a|b|\\(a\\|b\\)|\\*)){0,2}",
            narrow in "(a|b|\\(a\\|b\\)|\\*)( (a|b|\\(a\\|b\\)|\\*)){0,2}",
            words in proptest::collection::vec("[abc]", 1..4),
            verdicts in (verdict(), verdict()),
        ) {
            let (wide, narrow) = (rule(&wide, verdicts.0), rule(&narrow, verdicts.1));
            if wide.covers(&narrow) && narrow.matches(&words) {
                proptest::prop_assert!(wide.matches(&words));
            }
        }

        #[test]
        fn a_rule_matches_by_its_definition(
            pattern in "(a|b|\\(a\\|b\\)|\\*)( (a|b|\\(a\\|b\\)|\\*)){0,5}",
            words in proptest::collection::vec("[abc]", 1..7),
            verdict in verdict(),
        ) {
            let pattern = CommandPattern::parse(&pattern).unwrap();
            let items: Vec<_> = pattern.items(verdict).collect();
            proptest::prop_assert_eq!(
                pattern.matches_in(verdict, &words),
                matches_by_definition(&items, &words)
            );
            // Allowed commands are at most those that would be asked about.
            proptest::prop_assert!(!pattern.matches(&words) || pattern.matches_in(Verdict::Ask, &words));
        }
    }

    fn list(rules: &[(&str, Verdict)], default: Option<Verdict>) -> RuleList {
        RuleList {
            rules: rules
                .iter()
                .map(|(pattern, verdict)| CommandRule {
                    pattern: CommandPattern::parse(pattern).unwrap(),
                    verdict: *verdict,
                    why: None,
                    origin: ConfigOrigin::built_in(),
                })
                .collect(),
            default,
            programs: ProgramLists::default(),
            origin: ConfigOrigin::built_in(),
        }
    }

    #[test]
    fn a_rule_that_forbids_names_an_option_wherever_it_stands() {
        let rules = ShellRules {
            lists: vec![list(
                &[
                    ("find * -exec *", Verdict::Block),
                    ("find * -delete *", Verdict::Ask),
                    ("find *", Verdict::Allow),
                    ("git * log", Verdict::Allow),
                ],
                Some(Verdict::Block),
            )],
            personal: Arc::default(),
        };
        for (command, expected) in [
            ("find . -name x", Verdict::Allow),
            ("find -exec rm {} +", Verdict::Block),
            ("find . -name x -exec rm {} +", Verdict::Block),
            ("find . -exec", Verdict::Block),
            ("find . -delete", Verdict::Ask),
            ("find . -delete -print", Verdict::Ask),
            ("git -p log", Verdict::Allow),
            ("git log", Verdict::Block),
            ("git -c x log", Verdict::Block),
        ] {
            assert_eq!(
                rules.decide(&example_words(command).unwrap()).verdict(),
                expected,
                "{command}"
            );
        }
    }

    #[test]
    fn blocked_wins_then_the_first_then_the_default() {
        let project = list(
            &[
                ("git *", Verdict::Allow),
                ("git push *", Verdict::Block),
                ("git log *", Verdict::Ask),
            ],
            Some(Verdict::Block),
        );
        let rules = ShellRules {
            lists: vec![project],
            personal: Arc::default(),
        };
        let verdict = |command: &str| rules.decide(&example_words(command).unwrap()).verdict();
        assert_eq!(verdict("git push x"), Verdict::Block);
        assert_eq!(verdict("git log"), Verdict::Allow);
        assert_eq!(verdict("ls"), Verdict::Block);
    }

    #[test]
    fn a_second_list_only_tightens() {
        let project = list(&[("git *", Verdict::Ask)], Some(Verdict::Block));
        let worker = list(
            &[("git *", Verdict::Allow), ("git log", Verdict::Block)],
            None,
        );
        let rules = ShellRules {
            lists: vec![project, worker],
            personal: Arc::default(),
        };
        let verdict = |command: &str| rules.decide(&example_words(command).unwrap()).verdict();
        assert_eq!(verdict("git x"), Verdict::Ask);
        assert_eq!(verdict("git log"), Verdict::Block);
        assert_eq!(verdict("ls"), Verdict::Block);
    }
}
