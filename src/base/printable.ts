/**
 * Text of the program as people and files get it: its names, paths and arguments may have characters that command a
 * terminal, turn the text round, or must not be in XML.
 */

/**
 * The same text, in which each such character is written as its escape, such as `\u001b`: control characters, separators of
 * lines and paragraphs, those that change the direction of text, halves of surrogate pairs, and what is no character.
 */
export function printable(text: string): string {
  let result = ''
  let from = 0
  // By hand: where the stack is about to run over, V8 ends the process when it compiles a regular expression.
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code >= 0x20 && code < 0x7f) continue
    if (isFirstHalf(code) && isSecondHalf(text.charCodeAt(at + 1))) at += 1
    else if (!isPrintable(code)) {
      result += `${text.slice(from, at)}\\u${code.toString(16).padStart(4, '0')}`
      from = at + 1
    }
  }
  return from === 0 ? text : result + text.slice(from)
}

/** The same for a text of several lines, which stay so. */
export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n')

/** The first letters of a text that is longer, without half of a surrogate pair at the end. */
export function beginning(text: string, letters: number): string {
  const end = Math.max(0, Math.floor(letters))
  return text.slice(0, isFirstHalf(text.charCodeAt(end - 1)) ? end - 1 : end)
}

const isFirstHalf = (code: number): boolean => code >= 0xd800 && code < 0xdc00
const isSecondHalf = (code: number): boolean => code >= 0xdc00 && code < 0xe000

/** Of a UTF-16 code unit that is no half of a pair. */
function isPrintable(code: number): boolean {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false
  if (code >= 0xd800 && code < 0xe000) return false
  if (code >= 0x200e && code <= 0x200f) return false
  if (code >= 0x2028 && code <= 0x202e) return false
  if (code >= 0x2066 && code <= 0x2069) return false
  return code !== 0x61c && code !== 0xfeff && code < 0xfffe
}
