//! Meters as ovs-ofctl reads them: `meter=1,kbps,burst,band=type=drop,rate=1000,burst_size=100`.

use super::error::{ErrorKind, ParseError};
use super::scan::{Scanner, Word};
use super::value;
use crate::{MeterConfig, MeterUnit};

/// Reads a meter. Without `pktps` the rate is in kilobits, without `burst_size` a second's worth may
/// come at once. The only kind of band is `drop`, and there is one.
///
/// # Errors
/// [`ParseError`] says which word is wrong and where it is.
pub fn parse_meter(text: &str) -> Result<(u32, MeterConfig), ParseError> {
    let mut scan = Scanner::new(text);
    let (mut id, mut unit, mut rate, mut burst) = (None, None, None, None);
    while scan.skip(true) {
        let word = scan.some_word("a meter's property")?;
        match word.text {
            "meter" => once(word, &mut id, assigned(&mut scan)?)?,
            "kbps" => once(word, &mut unit, MeterUnit::Kilobits)?,
            "pktps" => once(word, &mut unit, MeterUnit::Packets)?,
            // Both go without saying.
            "burst" | "stats" => {}
            "band" | "bands" => scan.expect('=', "\"=\"")?,
            "type" => {
                scan.expect('=', "\"=\"")?;
                let kind = scan.some_word("drop")?;
                if kind.text != "drop" {
                    return kind.want("drop");
                }
            }
            "rate" => once(word, &mut rate, assigned(&mut scan)?)?,
            "burst_size" => once(word, &mut burst, assigned(&mut scan)?)?,
            _ => {
                return Err(word.error(ErrorKind::OneOf(vec![
                    "meter",
                    "kbps",
                    "pktps",
                    "burst",
                    "band=type=drop",
                    "rate",
                    "burst_size",
                ])));
            }
        }
    }
    let missing = |what| scan.here().error(ErrorKind::Want(what));
    let id = id.ok_or_else(|| missing("meter=number"))?;
    let rate = rate.ok_or_else(|| missing("rate=number"))?;
    let unit = unit.unwrap_or(MeterUnit::Kilobits);
    Ok((id, MeterConfig { unit, rate, burst: burst.unwrap_or(rate) }))
}

fn once<T>(word: Word<'_>, place: &mut Option<T>, value: T) -> Result<(), ParseError> {
    if place.replace(value).is_some() { Err(word.error(ErrorKind::Twice)) } else { Ok(()) }
}

/// `=7`.
fn assigned(scan: &mut Scanner<'_>) -> Result<u32, ParseError> {
    scan.expect('=', "\"=\"")?;
    let word = scan.some_word("a number")?;
    let max = u128::from(u32::MAX);
    value::number(word, max)?.try_into().map_err(|_| word.error(ErrorKind::TooLarge(max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_as_ovs_ofctl_reads_them() {
        let config = |unit, rate, burst| MeterConfig { unit, rate, burst };
        let full = "meter=7,pktps,burst,stats,band=type=drop,rate=1000,burst_size=64";
        assert_eq!(parse_meter(full), Ok((7, config(MeterUnit::Packets, 1000, 64))));
        let short = "meter=1 band=type=drop rate=500";
        assert_eq!(parse_meter(short), Ok((1, config(MeterUnit::Kilobits, 500, 500))));
    }

    #[test]
    fn errors_name_the_word() {
        for (text, word, says) in [
            ("", "", "want meter=number"),
            ("meter=1", "", "want rate=number"),
            ("meter=1,meter=2,rate=5", "meter", "given twice"),
            ("meter=x", "x", "want a number"),
            ("meter=1,gbps", "gbps", "want meter, kbps, pktps"),
            ("meter=1,band=type=dscp_remark,rate=5", "dscp_remark", "want drop"),
            ("meter=1,rate=4294967296", "4294967296", "at most"),
            ("meter=1,kbps,pktps,rate=1", "pktps", "given twice"),
        ] {
            let error = parse_meter(text).expect_err(text);
            assert_eq!(error.word, word, "{text}: {error}");
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }
}
