//! What a refused request is answered.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::fields::QuotaFields;
use crate::decision::Decision;
use crate::time::Timestamp;

impl QuotaFields {
    /// The answer to a refused request: 429, not to be cached, with the fields, and a problem (RFC 9457) of type `quota-exceeded`
    /// that names the limits that were violated.
    ///
    /// ```
    /// use tollgate::http::QuotaFields;
    /// use tollgate::{Direct, Quota, Timestamp, TokenBucket};
    ///
    /// let quota = Quota::per_minute(30);
    /// let limiter = Direct::new(TokenBucket::new(quota).with_burst(1));
    /// let fields = QuotaFields::new("default", quota)?;
    /// let now = Timestamp::from_secs(1_000);
    /// limiter.allow(now);
    /// let response = fields.refusal(&limiter.check(now), &[], now);
    /// assert_eq!(response.status(), 429);
    /// assert_eq!(response.headers()["retry-after"], "2");
    /// assert!(response.body().contains("quota-exceeded"));
    /// # Ok::<(), tollgate::http::FieldError>(())
    /// ```
    #[must_use]
    pub fn refusal(
        &self,
        decision: &Decision,
        members: &[Decision],
        now: Timestamp,
    ) -> Response<String> {
        let mut violated = String::new();
        for name in self.violated(decision, members) {
            if !violated.is_empty() {
                violated.push(',');
            }
            violated.push_str(&json_string(name));
        }
        let mut response = Response::new(format!(
            "{{\"type\":\"{PROBLEM_TYPE}\",\"title\":\"{PROBLEM_TITLE}\",\"status\":429,\"violated-policies\":[{violated}]}}"
        ));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, json);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        self.write_each(decision, members, now, headers);
        response
    }

    /// The answer to a refused gRPC request: status 200 and no body, but `grpc-status: 8` (`RESOURCE_EXHAUSTED`) with the delay
    /// after which to try again, as `RetryInfo` and as `grpc-retry-pushback-ms`.
    ///
    /// A bare 429 reaches a gRPC client as `UNAVAILABLE` or as `INTERNAL`, which it retries at once, or not at all.
    #[must_use]
    pub fn grpc_refusal(
        &self,
        decision: &Decision,
        members: &[Decision],
        now: Timestamp,
    ) -> Response<()> {
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        self.write_each(decision, members, now, headers);
        write_grpc(decision.retry_after_ns(), headers);
        response
    }
}

/// Whether a request is gRPC's, by its content type: then [`QuotaFields::grpc_refusal`] is the answer.
///
/// (Those of gRPC-Web are too; they are answered by whatever translates them, if it stands outside.)
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|value| {
        let (start, rest) = value.split_at_checked(GRPC.len())?;
        start.eq_ignore_ascii_case(GRPC).then_some(rest)
    });
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b'-' | b';' | b' ' | b'\t')))
}

fn write_grpc(wait_ns: u64, headers: &mut HeaderMap) {
    // Rounded up: a client that waits as long succeeds. Above what 32 bits hold it would read as "never again".
    let millis = wait_ns.div_ceil(NANOS_PER_MILLI).clamp(1, i32::MAX as u64);
    headers.insert(GRPC_STATUS, HeaderValue::from_static("8"));
    headers.insert(
        GRPC_MESSAGE,
        HeaderValue::from_static("rate%20limit%20exceeded"),
    );
    headers.insert(GRPC_RETRY_PUSHBACK, HeaderValue::from(millis));
    if let Ok(details) = HeaderValue::from_str(&base64(&status_with_retry_info(wait_ns.max(1)))) {
        headers.insert(GRPC_STATUS_DETAILS, details);
    }
}

/// A `google.rpc.Status` with a `google.rpc.RetryInfo`, in the encoding of protocol buffers.
fn status_with_retry_info(wait_ns: u64) -> Vec<u8> {
    let mut delay = Vec::new();
    number(&mut delay, 1, wait_ns / NANOS_PER_SECOND);
    number(&mut delay, 2, wait_ns % NANOS_PER_SECOND);
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &delay);
    let mut any = Vec::new();
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    number(&mut status, 1, 8);
    bytes(&mut status, 2, b"rate limit exceeded");
    bytes(&mut status, 3, &any);
    status
}

/// A field that is a number; zero is left out.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        message.push(field << 3);
        varint(message, value);
    }
}

/// A field that is bytes.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Without padding, as gRPC's binary fields are sent.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            let index = bits >> (18 - 6 * digit) & 0x3f;
            text.push(char::from(DIGITS[index as usize]));
        }
    }
    text
}

/// Of a name of printable ASCII.
fn json_string(name: &str) -> String {
    let mut json = String::from("\"");
    for character in name.chars() {
        if matches!(character, '"' | '\\') {
            json.push('\\');
        }
        json.push(character);
    }
    json.push('"');
    json
}

const PROBLEM_TYPE: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const PROBLEM_TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";

const GRPC: &[u8] = b"application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
