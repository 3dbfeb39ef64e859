// Work for `node` that makes code as it runs: functions are compiled from text in several shapes, called until
// they are optimised, given another type of argument so that they are thrown away and compiled anew, and
// dropped; regular expressions, which are compiled too, take a growing text apart; and the heap grows and is
// collected. Always the same.
"use strict";

const SHAPES = [
    (n) => `let s = 0; for (let i = 0; i < a.length; i++) s += a[i] * ${n} % 7; return s;`,
    (n) => `const m = new Map(); for (const x of a) m.set(x % ${n + 2}, (m.get(x % ${n + 2}) ?? 0) + 1); return m.size;`,
    (n) => `const o = []; for (let i = 0; i < a.length; i++) o.push({ at: i, key: a[i] + ${n} }); return o.reduce((s, e) => s + e.at, 0);`,
    (n) => `const f = new Float64Array(a.length + ${n}); for (let i = 0; i < a.length; i++) f[i] = Math.sqrt(a[i]); return f[${n} % f.length] | 0;`,
    (n) => `let t = ""; for (let i = 0; i < a.length; i += ${n % 13 + 1}) t += a[i].toString(${n % 30 + 5}); return t.length;`,
];

const kept = [];
const numbers = Array.from({ length: 400 }, (_, i) => (i * 2654435761) % 1000);
const mixed = numbers.map((x) => (x % 3 === 0 ? x + 0.5 : x));

function round(number) {
    const made = new Function("a", SHAPES[number % SHAPES.length](number));
    let sum = 0;
    for (let i = 0; i < 300; i++) sum += made(numbers);
    for (let i = 0; i < 100; i++) sum += made(mixed);
    return sum;
}

function words(number) {
    const rule = new RegExp(`(w${number % 17}[a-f]+)|(\\d{${number % 4 + 1},})`, "g");
    const text = Array.from({ length: 500 }, (_, i) => `w${i % 17}abc ${i * number}`).join(" ");
    return [...text.matchAll(rule)].length;
}

const rounds = Number(process.argv[2] ?? 400);
let sum = 0;
for (let number = 0; number < rounds; number++) {
    sum += round(number) + words(number);
    // What is kept grows, and half of it is let go from time to time.
    kept.push(Array.from({ length: 2000 }, (_, i) => ({ number, i, name: `n${i % 97}` })));
    if (number % 50 === 49) kept.splice(0, 25);
}
console.log(Math.round(sum), kept.length);
