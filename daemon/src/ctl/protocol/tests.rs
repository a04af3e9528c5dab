//! The reader under half, doubled, random and hostile input; the exact bytes of replies.

use proptest::prelude::*;
use serde_json::json;

use super::super::reply::Message as Sentence;
use super::*;

fn request(id: u64, method: &str, params: &[&str]) -> Vec<u8> {
    serde_json::to_vec(&json!({ "id": id, "method": method, "params": params })).unwrap()
}

/// Feeds as a socket would, in pieces of at most `piece` bytes; returns everything that came out.
fn read(bytes: &[u8], piece: usize) -> (Vec<Request>, Option<BadRequest>) {
    let mut reader = RequestReader::default();
    let mut requests = Vec::new();
    let mut rest = bytes;
    loop {
        match reader.take() {
            Ok(Some(request)) => requests.push(request),
            Ok(None) if rest.is_empty() => return (requests, None),
            Ok(None) => {
                let n = piece.min(rest.len()).min(reader.room());
                reader.feed(&rest[..n]);
                rest = &rest[n..];
            }
            Err(bad) => return (requests, Some(bad)),
        }
    }
}

fn problem(bytes: &[u8]) -> Problem {
    read(bytes, 4096).1.expect("a refusal").problem
}

#[test]
fn split_at_every_byte() {
    let bytes = request(7, "dpctl/show", &["-s", "a \"quoted\\\" {brace"]);
    for split in 0..=bytes.len() {
        let mut reader = RequestReader::default();
        reader.feed(&bytes[..split]);
        let early = reader.take().unwrap();
        assert_eq!(early.is_some(), split == bytes.len());
        reader.feed(&bytes[split..]);
        let found = early.or_else(|| reader.take().unwrap()).expect("a request");
        assert_eq!((found.id, found.method.as_str()), (json!(7), "dpctl/show"));
        assert_eq!(found.params[1], "a \"quoted\\\" {brace");
        assert_eq!(reader.take(), Ok(None));
    }
}

#[test]
fn several_in_one_read() {
    let mut bytes = request(0, "a", &[]);
    bytes.extend_from_slice(b" \n\t");
    bytes.extend(request(1, "b", &["}{"]));
    bytes.extend(request(2, "c", &[]));
    bytes.extend_from_slice(b"\r\n");
    for piece in [1, 2, 3, 64, 4096] {
        let (requests, bad) = read(&bytes, piece);
        assert_eq!(bad, None);
        let methods: Vec<_> = requests.iter().map(|r| r.method.as_str()).collect();
        assert_eq!(methods, ["a", "b", "c"]);
    }
}

#[test]
fn any_id_is_echoed() {
    for id in [json!(0), json!("x"), json!([1, null]), json!({"a": 1.5}), json!(false)] {
        let bytes = serde_json::to_vec(&json!({"method": "m", "id": id, "params": []})).unwrap();
        assert_eq!(read(&bytes, 5).0[0].id, id);
    }
}

#[test]
fn wrong_members() {
    let member = |text: &str| {
        let problem = problem(text.as_bytes());
        let Problem::Member(what) = problem else { panic!("{problem:?}") };
        what
    };
    assert_eq!(member(r#"{"method":"m","params":[]}"#), "it has no \"id\"");
    assert_eq!(member(r#"{"id":null,"method":"m","params":[]}"#), "it has no \"id\"");
    assert_eq!(member(r#"{"id":1,"method":5,"params":[]}"#), "\"method\" is not a string");
    assert_eq!(member(r#"{"id":1,"params":[]}"#), "\"method\" is not a string");
    assert_eq!(member(r#"{"id":1,"method":"m","params":{}}"#), "\"params\" is not an array");
    assert_eq!(member(r#"{"id":1,"method":"m"}"#), "\"params\" is not an array");
    let bad = read(br#"{"id":9,"method":"m"}"#, 3).1.unwrap();
    assert_eq!(bad.id, json!(9));
}

#[test]
fn not_json() {
    assert_eq!(problem(b"GET / HTTP/1.1\r\n"), Problem::NotAnObject);
    assert_eq!(problem(b"[1]"), Problem::NotAnObject);
    assert_eq!(problem(b"  \"text\""), Problem::NotAnObject);
    assert!(matches!(problem(b"{]"), Problem::Syntax(_)));
    assert!(matches!(problem(b"{\"id\":1,}"), Problem::Syntax(_)));
    assert!(matches!(problem(b"{\"id\":1e999}"), Problem::Syntax(_)));
    assert!(matches!(problem(b"{\"id\":\"\xff\"}"), Problem::Syntax(_)));
}

#[test]
fn depth_is_bounded() {
    let nested = |n: usize| {
        let brackets = ("[".repeat(n), "]".repeat(n));
        format!("{{\"id\":1,\"method\":\"m\",\"params\":{}{}}}", brackets.0, brackets.1)
    };
    assert_eq!(read(nested(DEPTH - 1).as_bytes(), 100).1, None);
    assert_eq!(problem(nested(DEPTH).as_bytes()), Problem::TooDeep);
    assert_eq!(problem(&b"{\"a\":".repeat(20_000)), Problem::TooDeep);
}

#[test]
fn length_is_bounded() {
    let fits = REQUEST_SIZE - request(1, "m", &[""]).len();
    let (requests, bad) = read(&request(1, "m", &[&"x".repeat(fits)]), 1000);
    assert_eq!((requests.len(), bad), (1, None));
    assert_eq!(problem(&request(1, "m", &[&"x".repeat(fits + 1)])), Problem::TooLong);
    // Blanks between requests are no request.
    assert_eq!(read(&b" ".repeat(3 * REQUEST_SIZE), 4096), (Vec::new(), None));
}

#[test]
fn replies_byte_for_byte() {
    let done: Result<Box<dyn Reply>, CtlError> =
        Ok(Box::new(Sentence { message: "hi".to_owned() }));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let got = text(encode(&json!(3), &done, Format::Text));
    assert_eq!(got, r#"{"id":3,"result":"hi\n","error":null}"#);
    let got = text(encode(&json!(3), &done, Format::Json));
    assert_eq!(got, r#"{"id":3,"result":{"message":"hi"},"error":null}"#);
    let refused = Err(CtlError::UnknownCommand("x".to_owned()));
    for format in [Format::Text, Format::Json] {
        let got = text(encode(&json!(0), &refused, format));
        let error = r#"\"x\" is not a valid command (use \"list-commands\" to see a list of valid commands)"#;
        assert_eq!(got, format!(r#"{{"id":0,"result":null,"error":"{error}\n"}}"#));
    }
}

proptest! {
    /// Whatever arrives, in whatever pieces: no panic, and the pieces do not matter.
    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1_usize..20) {
        prop_assert_eq!(read(&bytes, piece), read(&bytes, usize::MAX));
    }

    /// The same with bytes that look more like requests.
    #[test]
    fn nearly_json(text in r#"([{}\[\]",:\\ ]|"id"|"method"|"params"|1|null|"a"){0,60}"#, piece in 1_usize..9) {
        prop_assert_eq!(read(text.as_bytes(), piece), read(text.as_bytes(), usize::MAX));
    }

    /// Every request comes out as it went in.
    #[test]
    fn round_trip(requests in proptest::collection::vec((any::<u64>(), ".*", proptest::collection::vec(".*", 0..4)), 0..6), piece in 1_usize..50) {
        let mut bytes = Vec::new();
        for (id, method, params) in &requests {
            let params: Vec<&str> = params.iter().map(String::as_str).collect();
            bytes.extend(request(*id, method, &params));
        }
        let (got, bad) = read(&bytes, piece);
        prop_assert_eq!(bad, None);
        prop_assert_eq!(got.len(), requests.len());
        for (got, (id, method, params)) in got.iter().zip(&requests) {
            prop_assert_eq!(&got.id, &json!(id));
            prop_assert_eq!(&got.method, method);
            prop_assert_eq!(&json!(got.params), &json!(params));
        }
    }
}
