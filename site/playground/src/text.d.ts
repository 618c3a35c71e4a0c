declare module '*?text' {
  export const text: string
}
