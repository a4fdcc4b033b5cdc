//! `docs/glossary.md`: one page, and no word twice.

const PAGE: &str = include_str!("../../docs/glossary.md");

#[test]
fn the_glossary_has_at_most_twenty_five_words() {
    let entries: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("| **")).collect();
    assert!((1..=25).contains(&entries.len()), "{} entries: leave one out", entries.len());
    let words: Vec<&str> = entries.iter().filter_map(|entry| entry.split("**").next()).collect();
    let words: Vec<&str> = words.iter().flat_map(|words| words.split(", ")).collect();
    for (index, word) in words.iter().enumerate() {
        assert!(!words[..index].contains(word), "{word} has two entries");
    }
}
