"""Reach the network by way of the library's clients."""

import ftplib
import http.client
import imaplib
import poplib
import smtplib
import urllib.request
import xmlrpc.client

from attack_kit import BASE, attempt, verdict


def http_request():
    connection = http.client.HTTPConnection("127.0.0.1", 80, timeout=0.1)
    connection.request("GET", "/")


attempt("http", http_request)
attempt("ftp", lambda: ftplib.FTP("127.0.0.1", timeout=0.1))
attempt("imap", lambda: imaplib.IMAP4("127.0.0.1", timeout=0.1))
attempt("pop", lambda: poplib.POP3("127.0.0.1", timeout=0.1))
attempt("smtp", lambda: smtplib.SMTP("127.0.0.1", timeout=0.1))
attempt("xmlrpc", lambda: xmlrpc.client.ServerProxy("http://127.0.0.1/").x())
for url in (
    "http://127.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::1]/",
    "ftp://127.0.0.1/x",
    "file:///etc/passwd",
    "file://localhost" + BASE + "/canary.txt",
    "file://" + BASE + "/outside/secret.txt",
):
    attempt(url, lambda u=url: urllib.request.urlopen(u, timeout=0.1))
verdict()
