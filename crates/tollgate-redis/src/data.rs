//! Scripts of a caller's own, on the connection of the limiters.

use redis::{Cmd, Value};

use crate::{Failed, Redis, Script};

/// What a script answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data {
    /// Nothing: Lua's `false`.
    Nil,
    /// A whole number.
    Number(i64),
    /// Text, or any bytes.
    Bytes(Vec<u8>),
    /// A table.
    List(Vec<Self>),
}

impl Data {
    /// `None`: the scripts of Redis answer no such value.
    fn of(value: Value) -> Option<Self> {
        Some(match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Number(number),
            Value::BulkString(bytes) => Self::Bytes(bytes),
            Value::SimpleString(text) => Self::Bytes(text.into_bytes()),
            Value::Okay => Self::Bytes(b"OK".to_vec()),
            Value::Array(values) => Self::List(values.into_iter().map(Self::of).collect::<Option<_>>()?),
            _ => return None,
        })
    }
}

impl Redis {
    /// Runs a script within the deadline. In a cluster, the first key says where: there is at least
    /// one, and all lie in its slot.
    ///
    /// The breaker of a single server is not asked: a server that has no memory left fails what
    /// takes some, and still does what frees it.
    ///
    /// # Errors
    ///
    /// [`Failed`]. [`Failed::charged`](crate::Failed::charged) says whether the script may have
    /// been executed: it is not sent again then.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::{Data, Redis, Script};
    ///
    /// # async fn example(redis: &Redis) -> Result<(), Box<dyn std::error::Error>> {
    /// let script = Script::new("return redis.call('STRLEN', KEYS[1])");
    /// assert_eq!(redis.run(&script, &[b"{a}:text"], &[]).await?, Data::Number(0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(&self, script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) -> Result<Data, Failed> {
        let body = |command: &mut Cmd| {
            command.arg(keys.len());
            for part in keys.iter().chain(arguments) {
                command.arg(*part);
            }
        };
        let value = self.shared.store.run(script, body).await?;
        Data::of(value).ok_or_else(|| Failed::answer("the script answers a value that no script has"))
    }

    /// What each server says of its settings that match `pattern`: names and values. Not every user
    /// may ask.
    pub async fn config(&self, pattern: &str) -> Vec<Result<Vec<(String, String)>, Failed>> {
        self.shared.store.config(pattern).await
    }

    /// What the names of all keys begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.shared.prefix
    }
}
