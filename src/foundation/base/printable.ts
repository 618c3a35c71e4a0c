/** Text of the program, made safe for people and files: it may hold characters that command a terminal or break XML. */

/**
 * Control characters, halves of surrogate pairs, separators of lines and paragraphs, marks that change the direction of
 * text, and code points that are no characters.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]/gu

/** The text with each unprintable character written as its escape, such as `\u001b`. */
export const printable = (text: string): string =>
  text.replace(UNPRINTABLE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Escapes a text of several lines as `printable()` does, and keeps its line ends. */
export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n')

/** Escapes a text for HTML and XML, without control characters, which XML cannot have. */
export function escaped(text: string): string {
  return printable(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/** The first letters of a longer text, without half of a surrogate pair at the end. */
export function beginning(text: string, letters: number): string {
  const end = Math.max(0, Math.floor(letters))
  return text.slice(0, /[\ud800-\udbff]/.test(text.charAt(end - 1)) ? end - 1 : end)
}
