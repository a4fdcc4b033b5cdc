//! Headers whose names servers read as another's.

/// Whether servers that take another character for `-` in the names of headers read this name as
/// that of the header, which it is not: `_` as CGI, WSGI and Puma, `.` as PHP, any as lighttpd.
///
/// For implementations of [`Request`](crate::Request): see
/// [`Field::Misspelled`](crate::Field::Misspelled).
///
/// # Examples
///
/// ```
/// use tollgate_rules::is_misspelled;
///
/// assert!(is_misspelled("X_Api-Key", "x-api-key"));
/// assert!(is_misspelled("X.Api.Key", "x-api-key"));
/// assert!(!is_misspelled("X-Api-Key", "x-api-key"), "the header itself");
/// assert!(!is_misspelled("X_Api_Keys", "x-api-key"));
/// ```
#[must_use]
pub fn is_misspelled(name: &str, header: &str) -> bool {
    let read = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    name.len() == header.len()
        && name.bytes().map(read).eq(header.bytes().map(read))
        && !name.eq_ignore_ascii_case(header)
}
