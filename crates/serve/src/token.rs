//! The secret that requests must bear: 256 random bits, new for every server.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

/// Hexadecimal digits of the secret.
pub struct Token(String);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn random() -> io::Result<Token> {
        random_hex().map(Token)
    }

    /// Whether this is what a request bears. Takes as long for a wrong token as for a nearly right one.
    pub fn matches(&self, offered: &[u8]) -> bool {
        let known = self.0.as_bytes();
        let differing = known.iter().zip(offered).fold(0, |differing, (a, b)| differing | (a ^ b));
        known.len() == offered.len() && differing == 0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 256 random bits.
///
/// # Errors
/// The kernel gives no random bytes.
pub fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_itself_matches() {
        let (token, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(token.to_string().len(), 64);
        assert!(token.matches(token.to_string().as_bytes()));
        assert!(!token.matches(other.to_string().as_bytes()));
        assert!(!token.matches(b""));
        assert!(!token.matches(&token.to_string().as_bytes()[..63]));
        assert!(!token.matches(format!("{token}0").as_bytes()));
    }
}
