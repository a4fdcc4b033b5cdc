//! No request allocates once the buffers have grown.

use allocation_counter::measure;

use super::*;

#[test]
fn no_request_allocates_once_the_buffers_have_grown() {
    let mut text = String::from("rule = [");
    for number in 0..100 {
        text += &format!(
            "{{ name = 'r{number}', match.path = '/r{number}/{{id}}', key = ['path.id', 'client'], limits = '1/s' }},"
        );
    }
    text += "{ name = 'a', key = 'client', limits = '1/s', except.path = '/health' },
             { name = 'b', key = ['header.k', 'query.q', 'cookie.c', 'host', 'path'], limits = '1/s',
               cost = [{ match.method = 'POST', is = 5 }] },
             { name = 'c', match.label.plan = 'pro', key = 'label.user', limits = '1/s', replaces = ['a'] },
             { name = 'd', match.host = '*.example.com', match.client = '192.0.2.0/24', key = 'everyone', limits = '1/s',
               tier = [{ name = 't', match.header.k = ['sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b', 'a*b'], limits = '2/s' }] }]";
    let matcher = Matcher::new(&rules(&text)).unwrap();
    let requests: Vec<_> =
        ["/r7/x?q=1", "/R7//x/", "/x/..%2Fr99/y?q=%41&q=2", "/a//../r1/%zz", "*", "http://h/x"]
            .into_iter()
            .map(|target| PlainRequest {
                method: Some("POST".into()),
                host: Some("api.example.com".into()),
                client: Some([192, 0, 2, 7].into()),
                headers: pairs(&[("k", "secret"), ("cookie", "c=1; d=2")]),
                labels: pairs(&[("plan", "pro"), ("user", "ada")]),
                ..get(target)
            })
            .collect();
    let mut found = Found::default();
    let all = |found: &mut Found| {
        for request in &requests {
            matcher.find(request, found);
            assert!(found.concerned().len() >= 3, "{request:?}");
        }
    };
    all(&mut found);
    let allocated = measure(|| (0..100).for_each(|_| all(&mut found)));
    assert_eq!(allocated.count_total, 0, "{allocated:?}");
}
