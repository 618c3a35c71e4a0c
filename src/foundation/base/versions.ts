/** Versions such as '8.7', of which the part behind the point is a number, too. */

/** Whether a version is later than another. */
export function isLater(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [otherMajor = 0, otherMinor = 0] = than.split('.').map(Number)
  return major === otherMajor ? minor > otherMinor : major > otherMajor
}
