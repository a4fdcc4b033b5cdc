//! The rules files that programs use.

/// The numbers of a file, which reloads change.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) all: u64,
    pub(crate) bucket: u64,
    pub(crate) window: u64,
    pub(crate) at_once: u64,
    pub(crate) is_log: bool,
    pub(crate) is_shadow: bool,
    /// Whether the rule `window` is gone from the file.
    pub(crate) is_out: bool,
    /// The limit of each user by the files of envoyproxy/ratelimit.
    pub(crate) hits: u64,
}

/// The limit of each plan by those files.
pub(crate) const PLAN_HITS: u64 = 9;

impl Text {
    pub(crate) fn first() -> Self {
        Self {
            all: 40,
            bucket: 8,
            window: 12,
            at_once: 2,
            is_log: false,
            is_shadow: false,
            is_out: false,
            hits: 6,
        }
    }

    pub(crate) fn rules(&self) -> String {
        let Self { all, bucket, window, at_once, .. } = self;
        let kind = if self.is_log { "sliding-log:9/h" } else { "fixed-window:9/h" };
        let mode = if self.is_shadow { "mode = 'shadow', " } else { "" };
        let window = match self.is_out {
            true => String::new(),
            false => {
                format!(
                    "{{ name = 'window', key = 'client', limits = 'fixed-window:{window}/h', max_keys = 64 }},"
                )
            }
        };
        format!(
            "version = 1
rule = [
    {{ name = 'all', key = 'everyone', limits = 'fixed-window:{all}/h' }},
    {{ name = 'bucket', key = 'client', limits = '60/h,burst={bucket}', max_keys = 64 }},
    {window}
    {{ name = 'kind', key = 'client', limits = '{kind}', {mode}max_keys = 64 }},
    {{ name = 'failed', key = 'client', limits = 'fixed-window:7/h', charge_if.status = [401], max_keys = 64 }},
    {{ name = 'tokens', match.label.tokens = '*', key = 'client', limits = 'fixed-window:30/h', \
        cost = {{ from = 'label.tokens', default = 5 }}, max_keys = 64 }},
    {{ name = 'queue', match.label.queue = '1', key = 'client', \
        limits = 'leaky-bucket:60/h,capacity=4,mode=queue', max_keys = 64 }},
    {{ name = 'ban', match.label.ban = '1', key = 'client', limits = 'fixed-window:3/h', ban = '20min', max_keys = 64 }},
    {{ name = 'at-once', key = 'client', limits = 'in-flight:{at_once},ttl=365d', max_keys = 64 }},
]
"
        )
    }

    pub(crate) fn envoy(&self) -> String {
        format!(
            "domain: shop\ndescriptors:\n  \
               - {{ key: user, rate_limit: {{ unit: hour, requests_per_unit: {} }} }}\n  \
               - {{ key: plan, value: free, rate_limit: {{ unit: hour, requests_per_unit: {PLAN_HITS} }} }}\n",
            self.hits
        )
    }
}
